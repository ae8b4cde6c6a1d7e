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

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function read(kind, key) {
  try {
    return parse(storage(kind).getItem(PREFIX + key));
  } catch {
    return null; // storage is disabled
  }
}

/** The texts of a stored list; anything else that may be there, such as what another program has left, is ignored. */
function readList(kind, key) {
  const value = read(kind, key);
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

function write(kind, key, value) {
  try {
    if (value === null || value === undefined || value === "") storage(kind).removeItem(PREFIX + key);
    else storage(kind).setItem(PREFIX + key, JSON.stringify(value));
  } catch {
    // full or disabled: stored values are a convenience
  }
}

export const localStore = { get: (key) => read("localStorage", key), list: (key) => readList("localStorage", key), set: (key, value) => write("localStorage", key, value) };
export const sessionStore = { get: (key) => read("sessionStorage", key), list: (key) => readList("sessionStorage", key), set: (key, value) => write("sessionStorage", key, value) };

/** What of the storage that all windows share another window has removed: {key, old}; null for anything else. */
export function removedBy({ key, oldValue, newValue }) {
  if (!key?.startsWith(PREFIX) || oldValue === null || newValue !== null) return null;
  return { key: key.slice(PREFIX.length), old: parse(oldValue) };
}

const OF_TABS = /^newel:(?:draft|edits|files|place|seen|form|told):(.+)$/;

/** Remove the entries of tabs that no longer exist; returns the ids of these tabs. */
export function forgetTabs(ids) {
  const gone = new Set();
  const local = storage("localStorage") ?? {};
  for (const key of Object.keys(local)) {
    const tab = OF_TABS.exec(key)?.[1];
    if (!tab || ids.has(tab)) continue;
    local.removeItem(key);
    gone.add(tab);
  }
  return gone;
}
