// Browser storage: drafts, scroll positions, read markers, preferences. Where it is disabled nothing is stored.
// `localStore` is shared by all windows, `sessionStore` belongs to this one and survives a reload.

const PREFIX = "newel:";

function storage(kind) {
  try {
    return window[kind];
  } catch {
    return null; // storage is disabled
  }
}

const local = storage("localStorage");
const session = storage("sessionStorage");

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function read(place, key) {
  try {
    return parse(place.getItem(PREFIX + key));
  } catch {
    return null; // storage is disabled
  }
}

/** The texts of a stored list; anything else that may be there, such as what another program has left, is ignored. */
function readList(place, key) {
  const value = read(place, key);
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

function write(place, key, value) {
  try {
    if (value === null || value === undefined || value === "") place.removeItem(PREFIX + key);
    else place.setItem(PREFIX + key, JSON.stringify(value));
  } catch {
    // full or disabled: stored values are a convenience
  }
}

export const localStore = { get: (key) => read(local, key), list: (key) => readList(local, key), set: (key, value) => write(local, key, value) };
export const sessionStore = { get: (key) => read(session, key), list: (key) => readList(session, key), set: (key, value) => write(session, key, value) };

/** What of the storage that all windows share another window has removed: {key, old}; null for anything else. */
export function removedBy({ key, oldValue, newValue }) {
  if (!key?.startsWith(PREFIX) || oldValue === null || newValue !== null) return null;
  return { key: key.slice(PREFIX.length), old: parse(oldValue) };
}

const OF_TABS = /^newel:(?:draft|edits|files|place|seen|form|told):(.+)$/;

/** Remove the entries of tabs that no longer exist; returns the ids of these tabs. */
export function forgetTabs(ids) {
  const gone = new Set();
  for (const key of Object.keys(local ?? {})) {
    const tab = OF_TABS.exec(key)?.[1];
    if (!tab || ids.has(tab)) continue;
    local.removeItem(key);
    gone.add(tab);
  }
  return gone;
}
