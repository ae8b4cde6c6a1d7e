// A place that shows what the server says: it is read when the place is shown, and while it is shown with every change of what waits.

const AGAIN = 2_000; // ms

/** Its subclass has `review` and `read()`, and says by `heard(state)` whether it is concerned. */
export class AutoRefresh {
  load() {
    this.stop = this.review.subscribe((state) => this.heard(state) && this.isShown && this.read());
  }

  heard({ pending }) {
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

  /** Read again in a while, as long as a job is under way: what it does changes nothing that waits. */
  scheduleRead(isUnderWay) {
    clearTimeout(this.timer);
    if (isUnderWay && this.isShown) this.timer = setTimeout(() => this.read(), AGAIN);
  }

  destroy() {
    this.hidden();
    this.stop?.();
  }
}
