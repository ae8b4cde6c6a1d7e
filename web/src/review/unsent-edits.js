// Storage for edits and decisions that this window has not sent yet. They survive a reload and a closed window.
//
// Each window has a name, and holds a lock of that name while it is open. The entries of a closed window are taken over by the
// next one of the same project. If the browser cannot store them they are kept in memory, and `isKept` is false.

const PREFIX = "newel:unsent:";
const NAME = "newel:window";
const TYPED = "typed/";
const LOST = "lost/";
const LOCK_TIMEOUT = 500; // ms for the previous page of this window to release its lock

/** The keys of unsent edits of a file, and of edits that cannot be applied any more; another key is "decisions". */
export const typedKey = (path) => TYPED + path;
export const lostKey = (path) => LOST + path;

function storageOf(kind) {
  try {
    return globalThis[kind] ?? null;
  } catch {
    return null; // storage is disabled
  }
}

export class UnsentEdits {
  /** `locks` are missing outside a secure context; then no entries of other windows are taken over. */
  constructor({ local = storageOf("localStorage"), session = storageOf("sessionStorage"), locks = globalThis.navigator?.locks } = {}) {
    Object.assign(this, { local, session, locks });
    this.values = new Map();
    this.isKept = true;
    this.isReady = false; // whether stored entries are loaded
    this.ready = new Promise((resolve) => (this.begun = resolve));
  }

  /** Load this window's entries for a project, and those of closed windows. */
  async begin(project) {
    this.window = await this.#name();
    this.project = project;
    const own = this.values;
    this.values = new Map();
    await this.#alone(async (alive) => this.#takeOver(alive));
    for (const [name, value] of own) this.set(name, merge(this.get(name), value));
    this.isReady = true;
    this.begun();
  }

  /** The files with unsent edits. */
  typedPaths = () => [...this.values.keys()].filter((name) => name.startsWith(TYPED)).map((name) => name.slice(TYPED.length));

  get = (name) => this.values.get(name) ?? null;

  /** Store a value; null removes it. */
  set(name, value) {
    if (value === null) this.values.delete(name);
    else this.values.set(name, value);
    if (this.project !== undefined) this.#write(this.#key(name), value);
  }

  /** The value of a key, after loading if there may be one. */
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
      this.isKept = value === null && this.isKept; // full or disabled
    }
  }

  /** All stored entries, of all windows and projects: [{key, project, window, name}]. */
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

  /** The name of this window: kept over a reload, unless a duplicated window uses it. */
  async #name() {
    const known = read(this.session, NAME);
    const name = known && (await this.#lock(known)) ? known : crypto.getRandomValues(new Uint32Array(2)).join("-");
    if (name !== known) await this.#lock(name);
    try {
      this.session.setItem(NAME, JSON.stringify(name));
    } catch {
      // then it gets a new name next time, and takes over these entries
    }
    return name;
  }

  /** Hold the lock of a name until this page ends; resolves to whether it was acquired. */
  #lock(name) {
    if (!this.locks) return true;
    return new Promise((resolve) => {
      const hold = () => {
        resolve(true);
        return new Promise(() => {});
      };
      this.locks.request(NAME + name, { signal: AbortSignal.timeout(LOCK_TIMEOUT) }, hold).catch(() => resolve(false));
    });
  }

  /** Run `act` exclusively, with the names of the open windows. */
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
      if (this.values.has(name) && !Array.isArray(value)) continue; // two windows edited the same file: a later one takes this over
      this.values.set(name, merge(value, this.get(name)));
      if (!isOwn) this.#write(key, null);
      this.#write(this.#key(name), this.values.get(name));
    }
  }
}

/** Concatenate lists; of other values prefer the second. */
const merge = (first, second) => (Array.isArray(first) && Array.isArray(second) ? [...first, ...second] : (second ?? first));

function read(storage, key) {
  try {
    return JSON.parse(storage.getItem(key));
  } catch {
    return null;
  }
}
