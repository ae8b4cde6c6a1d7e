// Base class of views that show data of the server: they read it when shown, and again after a while.

/** Subclasses have `read()`. */
export class Polling {
  shown() {
    this.isShown = true;
    this.read();
  }

  hidden() {
    this.isShown = false;
    clearTimeout(this.timer);
  }

  /** Read again after `delay` ms, instead of when it was scheduled before. */
  scheduleRead(delay) {
    clearTimeout(this.timer);
    if (this.isShown) this.timer = setTimeout(() => this.read(), delay);
  }

  destroy() {
    this.hidden();
  }
}
