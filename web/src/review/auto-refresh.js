// Base class of views that show what the review says: they read it when shown, and again with each relevant change.

import { Polling } from "../polling.js";

const POLL_INTERVAL = 2_000; // ms

/** Subclasses have `review` and `read()`; `isAffected(state)` returns whether a change concerns them. */
export class AutoRefresh extends Polling {
  load() {
    this.stop = this.review.subscribe((state) => this.isAffected(state) && this.isShown && this.read());
  }

  isAffected({ pending }) {
    const isAnother = pending !== this.pending;
    this.pending = pending;
    return isAnother;
  }

  /** Read again after a while, as long as a job is running: its progress is not part of the pending changes. */
  readWhile(isUnderWay) {
    if (isUnderWay) this.scheduleRead(POLL_INTERVAL);
  }

  destroy() {
    super.destroy();
    this.stop?.();
  }
}
