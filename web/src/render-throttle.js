// Rendering, at most once per animation frame: less often while text arrives faster than anyone reads, and never so often
// that drawing takes up the page's time.

const FAST_RATE = 1_500; // characters a second
const RATE_WINDOW = 300; // ms over which the rate is averaged
const MAX_INTERVAL = 250; // ms between two renderings
const HIDDEN_INTERVAL = 250; // ms: a page in the background has no animation frames, but a title

// The interval is a multiple of the duration of the last rendering; for text at reading speed, less a delay that is not noticed.
const INTERVAL_FACTOR = { slow: 4, fast: 30 };
const UNNOTICED_DELAY = 40; // ms

const DELTA_EVENTS = new Set(["message_update", "tool_execution_update"]);

/** The number of characters that a frame adds to a growing text; null for any other frame. */
export const addedCharacters = (frame) =>
  frame.type === "event" && DELTA_EVENTS.has(frame.event.type)
    ? (frame.event.assistantMessageEvent ?? frame.event).delta?.length ?? 0
    : null;

/** All times are in ms. */
export class RenderThrottle {
  #rate = 0;
  #lastInput = 0;
  #lastRender = 0;
  #duration = 0;

  /** Record that characters arrived at `now`. */
  recordInput(characters, now) {
    this.#rate = this.#rateAt(now) + (1_000 * characters) / RATE_WINDOW;
    this.#lastInput = now;
  }

  /** Record when a rendering started and ended. */
  recordRender(start, end) {
    this.#lastRender = start;
    this.#duration = end - start;
  }

  /** The time to wait before the next rendering; 0 or less for none. */
  delay(now) {
    const isFast = this.#rateAt(now) > FAST_RATE;
    const interval = isFast ? INTERVAL_FACTOR.fast * this.#duration : INTERVAL_FACTOR.slow * this.#duration - UNNOTICED_DELAY;
    return Math.min(MAX_INTERVAL, interval) - (now - this.#lastRender);
  }

  #rateAt(now) {
    return this.#rate * Math.exp((this.#lastInput - now) / RATE_WINDOW);
  }
}

/** Calls `render` after each change, changes of one frame together. */
export class RenderLoop {
  #throttle = new RenderThrottle();
  #cancel = null; // of the rendering that is due
  #isDelayed = false; // whether it waits for more than the next frame

  constructor(render) {
    this.render = render;
    document.addEventListener("visibilitychange", () => {
      this.#cancel?.(); // a page in the background gets no frame
      this.#cancel = null;
      this.request();
    });
  }

  /** Render soon; `frame` is the server's frame that changed something, if it was one. */
  request(frame = null) {
    const characters = frame && addedCharacters(frame);
    if (characters !== null) this.#throttle.recordInput(characters, performance.now());
    const delay = document.hidden ? HIDDEN_INTERVAL : characters === null ? 0 : this.#throttle.delay(performance.now());
    if (this.#cancel && (delay > 0 || !this.#isDelayed)) return;
    this.#cancel?.();
    this.#isDelayed = delay > 0;
    if (!this.#isDelayed) return this.#requestFrame();
    const timer = setTimeout(() => (document.hidden ? this.#run() : this.#requestFrame()), delay);
    this.#cancel = () => clearTimeout(timer);
  }

  #requestFrame() {
    this.#isDelayed = false;
    const frame = requestAnimationFrame((start) => {
      this.#run();
      setTimeout(() => this.#throttle.recordRender(start, performance.now())); // after the frame: layout and paint count
    });
    this.#cancel = () => cancelAnimationFrame(frame);
  }

  #run() {
    this.#cancel = null;
    this.render();
  }
}
