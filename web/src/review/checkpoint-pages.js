// The list of checkpoints, read page by page, the latest first. A refresh reads only the pages that changed.

const PAGE = 50;

export class CheckpointPages {
  /** `api` is a ReviewApi. `list` are CheckpointSummaries; `isMore`: whether there are earlier ones. */
  constructor({ api, page = PAGE }) {
    Object.assign(this, { api, page });
    this.list = [];
    this.isMore = false;
  }

  /** Read the latest page, and of the others those with a file of `paths`, a set. */
  async refresh(paths = new Set()) {
    const { checkpoints: latest, more } = await this.api.checkpoints({ limit: this.page });
    const known = this.list.findIndex((each) => each.checkpoint_id === latest.at(-1)?.checkpoint_id);
    const isWhole = known < 0 || known === this.list.length - 1; // all listed ones are among the latest, or far behind them
    this.list = known < 0 ? latest : [...latest, ...this.list.slice(known + 1)];
    if (isWhole) this.isMore = more;
    for (let at = latest.length; at < this.list.length; at += this.page) {
      const part = this.list.slice(at, at + this.page);
      if (!part.some((each) => each.files.some((file) => paths.has(file.file_path)))) continue;
      const { checkpoints } = await this.api.checkpoints({ limit: part.length, before: this.list[at - 1].checkpoint_id });
      this.list = [...this.list.slice(0, at), ...checkpoints, ...this.list.slice(at + part.length)];
    }
  }

  /** Read one more page. */
  async next() {
    const { checkpoints, more } = await this.api.checkpoints({ limit: this.page, before: this.list.at(-1).checkpoint_id });
    this.list = [...this.list, ...checkpoints];
    this.isMore = more;
  }
}

/** The paths whose reviews differ between `before` and `after`, each a list of PendingFiles or null. */
export function changedPaths(before, after) {
  const revs = new Map((before ?? []).map((file) => [file.file_path, file.rev]));
  const changed = new Set();
  for (const { file_path: path, rev } of after ?? []) {
    if (revs.get(path) !== rev) changed.add(path);
    revs.delete(path);
  }
  return new Set([...changed, ...revs.keys()]);
}
