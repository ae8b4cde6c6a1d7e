// How often a growing text is drawn: with each frame, but not while it comes faster than anybody reads, and never so
// often that drawing takes the page's time.

const FAST = 1_500; // characters a second
const WINDOW = 300; // ms over which the speed is averaged
const LONGEST = 250; // ms between two drawings

// From one drawing to the next: so many times what the last one took, in a text that is read as it comes less a time in
// which nobody sees a delay.
const TIMES = { slow: 4, fast: 30 };
const UNSEEN = 40; // ms

const FLEETING = new Set(["message_update", "tool_execution_update"]);

/** The characters that a frame adds to what is being written, or null for any other frame. */
export const added = (frame) =>
  frame.type === "event" && FLEETING.has(frame.event.type)
    ? (frame.event.assistantMessageEvent ?? frame.event).delta?.length ?? 0
    : null;

/** All times are in ms. */
export class Pace {
  #speed = 0;
  #last = 0;
  #drawn = 0;
  #cost = 0;

  /** Note that characters came at `now`. */
  note(characters, now) {
    this.#speed = this.#at(now) + (1_000 * characters) / WINDOW;
    this.#last = now;
  }

  /** Note that a drawing began and ended. */
  drew(begin, end) {
    this.#drawn = begin;
    this.#cost = end - begin;
  }

  /** How long to wait before the next drawing. */
  wait(now) {
    const rest = this.#at(now) > FAST ? TIMES.fast * this.#cost : TIMES.slow * this.#cost - UNSEEN;
    return Math.min(LONGEST, rest) - (now - this.#drawn);
  }

  #at(now) {
    return this.#speed * Math.exp((this.#last - now) / WINDOW);
  }
}
