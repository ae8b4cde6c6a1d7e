// Notices what other programs change on disk: polls the files that are held, and the folders that are shown.

const POLL_INTERVAL = 1_500; // ms
const MAX_PATHS = 1_000; // in one request

/** `paths()` are to be watched, by kind: {files, folders}; `changed({files, folders})` is called with those that have changed. */
export class DiskWatch {
  constructor({ api, isUp, paths, changed }) {
    Object.assign(this, { api, isUp, paths, changed });
    this.stamps = new Map(); // by path; unknown ones count as changed
    setInterval(() => this.#poll(), POLL_INTERVAL);
  }

  /** A hidden page asks for nothing. */
  async #poll() {
    if (document.hidden || !this.isUp() || this.isPolling) return;
    const { files, folders } = this.paths();
    const paths = [...files, ...folders].slice(0, MAX_PATHS);
    if (paths.length === 0) return;
    this.isPolling = true;
    const stamps = await this.api.stamps(paths).catch(() => null); // the next check tells
    this.isPolling = false;
    if (stamps === null) return;
    const now = new Map(paths.map((path, at) => [path, stamps[at]]));
    const isOther = (path) => now.has(path) && now.get(path) !== this.stamps.get(path);
    const found = { files: files.filter(isOther), folders: folders.filter(isOther) };
    this.stamps = now;
    if (found.files.length + found.folders.length > 0) this.changed(found);
  }
}
