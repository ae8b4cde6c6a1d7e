// The state of the project's review: the pending changes and the open files.
//
//   pending   the files of GET /pending, in natural order; null until they are loaded
//   runs      the runs that made their hunks, the oldest first
//   progress  how many hunks of these runs are decided: {decided, total}
//   files     by path: the latest FileView of each file that is held, with a `problem` if it could not be read
//   problem   why the list could not be read; "" if it could
//   isUp      whether the server answers
//   revising, answers   hunks that an agent proposes anew: see revisions.js
//   waiting   pending decisions by path and hunk, `dropped` the failed ones: see pending-decisions.js

import { dictionary } from "../dictionary.js";

const BATCH_DELAY = 40; // ms: changes within this time are read together
const ANY_REVISION = 0; // instead of a revision: any revision will do
const FORCE_READ = Infinity; // instead of a revision: read the file in any case

/** `api` is a ReviewApi. Subscribers are called after each change. */
export function createReview({ api }) {
  let state = { pending: null, runs: [], progress: { decided: 0, total: 0 }, files: dictionary(), problem: "", isUp: true, waiting: dictionary(), dropped: [], revising: [], answers: [] };
  const readers = new Set();
  const held = new Map(); // path → number of holders
  const wanted = new Map(); // path → the minimum revision; an older file is read again
  const pendingAnswers = new Map(); // path → number of pending answers with a new view of the file
  let timer = null;
  let reading = Promise.resolve();

  function change(fields) {
    state = { ...state, ...fields };
    for (const reader of readers) reader(state);
  }

  const isUpToDate = (path, rev) => !state.files[path]?.problem && state.files[path]?.rev >= rev;

  function requireRevision(path, rev) {
    if (held.has(path)) wanted.set(path, Math.max(rev, wanted.get(path) ?? ANY_REVISION));
  }

  /** The files to read now, except those with a pending answer. */
  function pathsToRead() {
    for (const [path, rev] of wanted) if (isUpToDate(path, rev)) wanted.delete(path);
    return [...wanted.keys()].filter((path) => !pendingAnswers.has(path));
  }

  async function refresh() {
    const paths = pathsToRead();
    for (const path of paths) wanted.delete(path);
    const read = (request) => request.then((value) => ({ value }), (error) => ({ problem: error.message }));
    const [list, ...views] = await Promise.all([read(api.pending()), ...paths.map((path) => read(api.file(path)))]);
    const files = dictionary(state.files);
    views.forEach(({ value, problem }, at) => {
      const path = paths[at];
      if (!held.has(path)) return;
      if (value) files[path] = newerOf(value, files[path]);
      else {
        files[path] = { ...files[path], file_path: path, problem };
        requireRevision(path, FORCE_READ); // with the next refresh
      }
    });
    change({ ...(list.value && listOf(list.value)), problem: list.problem ?? "", files });
  }

  function drop(path) {
    held.delete(path);
    wanted.delete(path);
    const files = dictionary(state.files);
    delete files[path];
    state = { ...state, files };
  }

  const review = {
    get: () => state,
    subscribe(reader) {
      readers.add(reader);
      return () => readers.delete(reader);
    },

    /** The ledger changed: in the files `paths`, or for null in any. `revs` are the new revisions, by path. */
    touch(paths = null, revs = {}) {
      const known = dictionary(revs);
      for (const path of paths ?? held.keys()) requireRevision(path, known[path] ?? FORCE_READ);
      timer ??= setTimeout(() => {
        timer = null;
        reading = reading.then(refresh);
      }, BATCH_DELAY);
    },

    /** The files that are held. */
    held: () => [...held.keys()],

    /** Keep a file's view up to date until the returned function is called. */
    hold(path) {
      held.set(path, (held.get(path) ?? 0) + 1);
      review.touch([path], { [path]: ANY_REVISION });
      return () => {
        const left = held.get(path) - 1;
        if (left > 0) held.set(path, left);
        else drop(path);
      };
    },

    /**
     * Apply the view of a file that `answer`, a promise, resolves to; resolves to it, too. Meanwhile notifications do not cause
     * a read of the file, as they may be about this very change.
     */
    async take(path, answer) {
      pendingAnswers.set(path, (pendingAnswers.get(path) ?? 0) + 1);
      try {
        const view = await answer;
        if (held.has(path)) change({ files: dictionary(state.files, { [path]: newerOf(view, state.files[path]) }) });
        return view;
      } finally {
        const left = pendingAnswers.get(path) - 1;
        if (left > 0) pendingAnswers.set(path, left);
        else pendingAnswers.delete(path);
        if (pathsToRead().includes(path)) review.touch([]);
      }
    },

    put: (fields) => change(fields),
    link: (isUp) => change({ isUp }),
  };
  api.onLink = (isUp) => {
    review.link(isUp);
    if (isUp) review.touch();
  };
  return review;
}

const listOf = ({ files: pending, runs, decided, total }) => ({ pending, runs, progress: { decided, total } });

/** The newer of two views of a path; the read one if a link stands for another file by now, which counts its own revisions. */
const newerOf = (view, known) => (known?.file_path === view.file_path && known.rev > view.rev && !known.problem ? known : view);

/** Count the files, hunks and conflicts that are to be decided. */
export const countPending = (pending) => ({
  files: pending?.length ?? 0,
  hunks: (pending ?? []).reduce((sum, file) => sum + file.pending, 0),
  conflicts: (pending ?? []).reduce((sum, file) => sum + file.pending_conflicts, 0),
});
