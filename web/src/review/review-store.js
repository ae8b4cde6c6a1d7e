// What the page knows of the project's reviews: what waits, and the files that are open.
//
//   pending   the files of GET /pending, in the order of their names; null until they are known
//   runs      the runs that their hunks are of, the oldest first
//   files     by path: the latest FileView of each file that somebody holds, and of no other; with a `problem`, in words, if it
//             could not be read
//   problem   why the list could not be read, in words; "" if it could
//   isUp      whether the server answers
//   waiting   decisions on the way, by path and hunk, and `dropped` those that were not made: see waiting.js

const JOIN = 40; // ms: what changes at once is read at once
const SOME = 0; // instead of a revision: any that is known will do
const NONE = Infinity; // none will: the file is read in any case

/** `api` is a ReviewApi. Whoever subscribes is told after each change. */
export function createReview({ api }) {
  let state = { pending: null, runs: [], files: {}, problem: "", isUp: true, waiting: {}, dropped: [] };
  const readers = new Set();
  const held = new Map(); // path → how many hold it
  const wanted = new Map(); // path → the revision that is to be known; of an older one the file is read
  const taking = new Map(); // path → how many answers are under way that say what the file is
  let timer = null;
  let reading = Promise.resolve();

  function change(fields) {
    state = { ...state, ...fields };
    for (const reader of readers) reader(state);
  }

  const isKnown = (path, rev) => !state.files[path]?.problem && state.files[path]?.rev >= rev;

  function want(path, rev) {
    if (held.has(path)) wanted.set(path, Math.max(rev, wanted.get(path) ?? SOME));
  }

  /** The files that are to be read now; where an answer is under way that says what one is, it is waited for. */
  function missing() {
    for (const [path, rev] of wanted) if (isKnown(path, rev)) wanted.delete(path);
    return [...wanted.keys()].filter((path) => !taking.has(path));
  }

  async function refresh() {
    const paths = missing();
    for (const path of paths) wanted.delete(path);
    const read = (request) => request.then((value) => ({ value }), (error) => ({ problem: error.message }));
    const [list, ...views] = await Promise.all([read(api.pending()), ...paths.map((path) => read(api.file(path)))]);
    const files = { ...state.files };
    views.forEach(({ value, problem }, at) => {
      const path = paths[at];
      if (!held.has(path)) return;
      if (value) files[path] = newer(value, files[path]);
      else {
        files[path] = { ...files[path], file_path: path, problem };
        want(path, NONE); // with the next look
      }
    });
    change({ ...(list.value && { pending: list.value.files, runs: list.value.runs }), problem: list.problem ?? "", files });
  }

  function drop(path) {
    held.delete(path);
    wanted.delete(path);
    const { [path]: _, ...files } = state.files;
    state = { ...state, files };
  }

  const review = {
    get: () => state,
    subscribe(reader) {
      readers.add(reader);
      return () => readers.delete(reader);
    },

    /** The ledger changed, in these files or, for null, perhaps in any; by `revs` those that are at these revisions now. */
    touch(paths = null, revs = {}) {
      for (const path of paths ?? held.keys()) want(path, revs[path] ?? NONE);
      timer ??= setTimeout(() => {
        timer = null;
        reading = reading.then(refresh);
      }, JOIN);
    },

    /** Keep a file's view up to date until the returned function is called. */
    hold(path) {
      held.set(path, (held.get(path) ?? 0) + 1);
      review.touch([path], { [path]: SOME });
      return () => {
        const left = held.get(path) - 1;
        if (left > 0) held.set(path, left);
        else drop(path);
      };
    },

    /**
     * What an answer of the server, a promise, says a file is now; resolves to it. What the server tells of the file meanwhile
     * may be what the answer brings: the file is not read because of it until that is known.
     */
    async take(path, answer) {
      taking.set(path, (taking.get(path) ?? 0) + 1);
      try {
        const view = await answer;
        if (held.has(path)) change({ files: { ...state.files, [path]: newer(view, state.files[path]) } });
        return view;
      } finally {
        const left = taking.get(path) - 1;
        if (left > 0) taking.set(path, left);
        else taking.delete(path);
        if (missing().includes(path)) review.touch([]);
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

/** Of two views of a file the one that is not older. */
const newer = (view, known) => (known?.rev > view.rev && !known.problem ? known : view);

/** How many files and hunks wait, and how many of them are conflicts. */
export const countPending = (pending) => ({
  files: pending?.length ?? 0,
  hunks: (pending ?? []).reduce((sum, file) => sum + file.pending, 0),
  conflicts: (pending ?? []).reduce((sum, file) => sum + file.conflicts, 0),
});
