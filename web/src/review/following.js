// A place that shows what the server says: it is read when the place is shown, and while it is shown with every change of what waits.

/** Its subclass has `review` and `read()`, and says by `heard(state)` whether it is concerned. */
export class Following {
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
  }

  destroy() {
    this.stop?.();
  }
}
