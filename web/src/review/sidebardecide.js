// Decisions from the list: one after the other in each file, each on what the user saw.

const changed = (path) => new Error(`${path} changed just now, and nothing was decided. Look at it again.`);

export class Decisions {
  constructor({ api, review }) {
    Object.assign(this, { api, review });
    this.last = new Map(); // path → the last decision on it
  }

  /** Accept, reject or reopen a hunk as it was shown. Rejects with words. */
  hunk(path, hunk, action, mine = null) {
    return this.#after(path, () => this.#decide(path, hunk, action, mine));
  }

  /** Accept all of a file that is undecided and no conflict; `file` is how the list had it. */
  acceptFile(file) {
    return this.#after(file.file_path, async () => {
      const view = await this.#seen(file);
      if (!view.hunks.some((hunk) => hunk.state === "pending" && !hunk.conflict)) return;
      await this.review.take(file.file_path, this.api.decide(file.file_path, view.rev, "accept_all_file"));
    });
  }

  /** Reject all of a file that is undecided; resolves to how many hunks are left, as they have lines of the user's own. */
  rejectFile(file) {
    return this.#after(file.file_path, async () => {
      const undecided = (await this.#seen(file)).hunks.filter((hunk) => hunk.state === "pending");
      for (const hunk of undecided.filter((each) => !each.mine)) await this.#decide(file.file_path, hunk, "reject");
      return undecided.filter((each) => each.mine).length;
    });
  }

  #after(path, what) {
    const next = (this.last.get(path) ?? Promise.resolve()).catch(() => {}).then(what);
    this.last.set(path, next);
    return next.finally(() => this.last.get(path) === next && this.last.delete(path));
  }

  /** The file as it is, if it has no other hunks than the list said. */
  async #seen(file) {
    const view = await this.#read(file.file_path);
    const known = new Set(file.hunk_ids);
    const shown = view.hunks.filter((hunk) => hunk.state === "pending");
    if (shown.every((hunk) => known.has(hunk.hunk_id))) return view;
    throw changed(file.file_path);
  }

  #read = (path) => this.review.take(path, this.api.file(path));

  async #decide(path, hunk, action, mine = null) {
    const known = this.review.get().files[path];
    let view = known?.hunks && !known.problem ? known : await this.#read(path);
    for (let isLast = false; ; isLast = true) {
      const now = view.hunks.find((each) => each.hunk_id === hunk.hunk_id);
      if (now && now.state === STATES[action] && !mine) return;
      if (!now || now.patch !== hunk.patch) throw changed(path);
      try {
        await this.review.take(path, this.api.decide(path, view.rev, action, { hunk: hunk.hunk_id, mine }));
        return;
      } catch (error) {
        if (isLast || error.code !== "stale_revision") throw error;
        view = await this.#read(path); // somebody else was faster: perhaps elsewhere in the file
      }
    }
  }
}

const STATES = { accept: "accepted", reject: "rejected", reopen: "pending" };
