// What this window has not sent yet, kept in the browser: it outlives the page, be it loaded anew or torn down.
//
// Each window has a name, and holds a lock of that name as long as it lives. What a window has left that lives no more is taken
// over by the next one of the same project. Where the browser keeps nothing it is remembered here, and `isKept` is false.

const PREFIX = "newel:unsent:";
const NAME = "newel:window";
const TYPED = "typed/";
const LOST = "lost/";
const TIMEOUT = 500; // ms that the page before may take to end, of which this one has the name

/** The names of what was typed in a file, and of what of that fits nowhere any more; another name is "decisions". */
export const typedKey = (path) => TYPED + path;
export const lostKey = (path) => LOST + path;

function place(kind) {
  try {
    return globalThis[kind] ?? null;
  } catch {
    return null; // it is switched off
  }
}

export class UnsentEdits {
  /** `locks` may be missing: a browser has them at a safe address only; then no other window's things are taken over. */
  constructor({ local = place("localStorage"), session = place("sessionStorage"), locks = globalThis.navigator?.locks } = {}) {
    Object.assign(this, { local, session, locks });
    this.values = new Map();
    this.isKept = true;
    this.isReady = false; // until it is known what was kept
    this.ready = new Promise((resolve) => (this.begun = resolve));
  }

  /** Begin with what this window kept for a project, and with what others have left. */
  async begin(project) {
    this.window = await this.#name();
    this.project = project;
    const own = this.values;
    this.values = new Map();
    await this.#alone(async (alive) => this.#takeOver(alive));
    for (const [name, value] of own) this.set(name, both(this.get(name), value));
    this.isReady = true;
    this.begun();
  }

  /** The files in which something was typed that is not sent. */
  typedPaths = () => [...this.values.keys()].filter((name) => name.startsWith(TYPED)).map((name) => name.slice(TYPED.length));

  get = (name) => this.values.get(name) ?? null;

  /** Keep a value, or nothing for null. */
  set(name, value) {
    if (value === null) this.values.delete(name);
    else this.values.set(name, value);
    if (this.project !== undefined) this.#write(this.#key(name), value);
  }

  /** What is kept by a name, once it is sure whether there is something; at once where there is not. */
  async find(name) {
    if (!this.isReady && this.#keys().some((key) => key.name === name)) await this.ready;
    return this.get(name);
  }

  // -- within -----------------------------------------------------------------------------------

  #key = (name) => PREFIX + JSON.stringify([this.project, this.window, name]);

  #write(key, value) {
    try {
      if (value === null) this.local.removeItem(key);
      else this.local.setItem(key, JSON.stringify(value));
      this.isKept = true;
    } catch {
      this.isKept = value === null && this.isKept; // full, or switched off
    }
  }

  /** All that windows have kept, of whatever project: [{key, project, window, name}]. */
  #keys() {
    try {
      return Object.keys(this.local).filter((key) => key.startsWith(PREFIX)).map((key) => {
        const [project, window, name] = JSON.parse(key.slice(PREFIX.length));
        return { key, project, window, name };
      });
    } catch {
      return [];
    }
  }

  /** The name of this window: the one it had before it was loaded anew, unless a copy of it has that. */
  async #name() {
    const known = read(this.session, NAME);
    const name = known && (await this.#lock(known)) ? known : crypto.getRandomValues(new Uint32Array(2)).join("-");
    if (name !== known) await this.#lock(name);
    try {
      this.session.setItem(NAME, JSON.stringify(name));
    } catch {
      // then it has another one next time, and takes over what this one has left
    }
    return name;
  }

  /** Hold the lock of a name until this page ends; resolves to whether it could be had. */
  #lock(name) {
    if (!this.locks) return true;
    return new Promise((resolve) => {
      const hold = () => {
        resolve(true);
        return new Promise(() => {});
      };
      this.locks.request(NAME + name, { signal: AbortSignal.timeout(TIMEOUT) }, hold).catch(() => resolve(false));
    });
  }

  /** Do something while no other window does it, with the names of the windows that live. */
  async #alone(act) {
    if (!this.locks) return act(null);
    return this.locks.request(`${NAME}s`, async () => {
      const { held } = await this.locks.query();
      return act(new Set(held.map((lock) => lock.name)));
    });
  }

  #takeOver(alive) {
    for (const { key, project, window, name } of this.#keys()) {
      const isOwn = window === this.window;
      if (project !== this.project || !(isOwn || (alive && !alive.has(NAME + window)))) continue;
      const value = read(this.local, key);
      if (value === null) continue;
      if (this.values.has(name) && !Array.isArray(value)) continue; // in one file two windows typed: a later one takes this over
      this.values.set(name, both(value, this.get(name)));
      if (!isOwn) this.#write(key, null);
      this.#write(this.#key(name), this.values.get(name));
    }
  }
}

/** Lists are put together; of other things the second counts, if there is one. */
const both = (first, second) => (Array.isArray(first) && Array.isArray(second) ? [...first, ...second] : (second ?? first));

function read(storage, key) {
  try {
    return JSON.parse(storage.getItem(key));
  } catch {
    return null;
  }
}
