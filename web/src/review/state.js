// What the page knows of the project's reviews: what waits, and the files that are open.
//
//   pending   the files of GET /pending, in the order of their names; null until they are known
//   files     by path: the latest FileView of each file that somebody holds; with a `problem`, in words, if it could not be read
//   problem   why the list could not be read, in words; "" if it could
//   isUp      whether the server answers

const JOIN = 40; // ms: what changes at once is read at once

/** `api` is a ReviewApi. Whoever subscribes is told after each change. */
export function createReview({ api }) {
  let state = { pending: null, files: {}, problem: "", isUp: true };
  const readers = new Set();
  const held = new Map(); // path → how many hold it
  const stale = new Set(); // paths to be read anew
  let timer = null;
  let reading = Promise.resolve();

  function change(fields) {
    state = { ...state, ...fields };
    for (const reader of readers) reader(state);
  }

  async function refresh() {
    const paths = [...stale].filter((path) => held.has(path));
    stale.clear();
    const read = (request) => request.then((value) => ({ value }), (error) => ({ problem: error.message }));
    const [list, ...views] = await Promise.all([read(api.pending()), ...paths.map((path) => read(api.file(path)))]);
    const files = { ...state.files };
    views.forEach(({ value, problem }, at) => {
      if (value) files[paths[at]] = value;
      else {
        files[paths[at]] = { ...files[paths[at]], file_path: paths[at], problem };
        stale.add(paths[at]); // with the next look
      }
    });
    change({ pending: list.value ?? state.pending, problem: list.problem ?? "", files });
  }

  const review = {
    get: () => state,
    subscribe(reader) {
      readers.add(reader);
      return () => readers.delete(reader);
    },

    /** The ledger changed, in these files or, for null, perhaps in any. */
    touch(paths = null) {
      for (const path of paths ?? held.keys()) stale.add(path);
      timer ??= setTimeout(() => {
        timer = null;
        reading = reading.then(refresh);
      }, JOIN);
    },

    /** Keep a file's view up to date until the returned function is called. */
    hold(path) {
      held.set(path, (held.get(path) ?? 0) + 1);
      review.touch([path]);
      return () => {
        const left = held.get(path) - 1;
        if (left > 0) held.set(path, left);
        else held.delete(path);
      };
    },

    /** What an answer of the server says a file is now; an older one changes nothing. */
    take(view) {
      const known = state.files[view.file_path];
      if (known?.rev > view.rev) return;
      change({ files: { ...state.files, [view.file_path]: view } });
      review.touch([]);
    },

    link: (isUp) => change({ isUp }),
  };
  api.onLink = (isUp) => {
    review.link(isUp);
    if (isUp) review.touch();
  };
  return review;
}

/** How many files and hunks wait, and how many of them are conflicts. */
export const counts = (pending) => ({
  files: pending?.length ?? 0,
  hunks: (pending ?? []).reduce((sum, file) => sum + file.pending, 0),
  conflicts: (pending ?? []).reduce((sum, file) => sum + file.conflicts, 0),
});
