// How often a growing text is drawn: with each frame, but not while it comes faster than anybody reads.

const FAST = 1_500; // characters a second
const WINDOW = 300; // ms over which the speed is averaged
const REST = 100; // ms between two drawings of a fast text

const FLEETING = new Set(["message_update", "tool_execution_update"]);

/** The characters that a frame adds to what is being written, or null for any other frame. */
export const added = (frame) =>
  frame.type === "event" && FLEETING.has(frame.event.type)
    ? (frame.event.assistantMessageEvent ?? frame.event).delta?.length ?? 0
    : null;

export class Pace {
  #speed = 0;
  #last = 0;

  /** Note that characters came at `now`, in ms. */
  note(characters, now) {
    this.#speed = this.#at(now) + (1_000 * characters) / WINDOW;
    this.#last = now;
  }

  /** How long to wait after the last drawing, in ms. */
  wait(now) {
    return this.#at(now) > FAST ? REST : 0;
  }

  #at(now) {
    return this.#speed * Math.exp((this.#last - now) / WINDOW);
  }
}
