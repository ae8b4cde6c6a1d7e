// Base class of views that show data of the server: they read it when shown, and again with each relevant change.

const POLL_INTERVAL = 2_000; // ms

/** Subclasses have `review` and `read()`; `isAffected(state)` returns whether a change concerns them. */
export class AutoRefresh {
  load() {
    this.stop = this.review.subscribe((state) => this.isAffected(state) && this.isShown && this.read());
  }

  isAffected({ pending }) {
    const isAnother = pending !== this.pending;
    this.pending = pending;
    return isAnother;
  }

  shown() {
    this.isShown = true;
    this.read();
  }

  hidden() {
    this.isShown = false;
    clearTimeout(this.timer);
  }

  /** Read again after a while, as long as a job is running: its progress is not part of the pending changes. */
  scheduleRead(isUnderWay) {
    clearTimeout(this.timer);
    if (isUnderWay && this.isShown) this.timer = setTimeout(() => this.read(), POLL_INTERVAL);
  }

  destroy() {
    this.hidden();
    this.stop?.();
  }
}
