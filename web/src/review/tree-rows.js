// The rows of the file tree: folder entries and pending changes. Pure functions.

import { compareNames } from "./path-order.js";

const order = (one, other) =>
  (one.kind === "directory" ? 0 : 1) - (other.kind === "directory" ? 0 : 1) || compareNames(one.name, other.name);

const NO_FILE = "none"; // the hash of no file

export const join = (folder, name) => (folder ? `${folder}/${name}` : name);

/** The folders of a path, the outermost first. */
export const foldersOf = (path) => path.split("/").slice(0, -1).map((_, index, names) => names.slice(0, index + 1).join("/"));

/**
 * The pending changes by path: {files: path → PendingFile, folders: number of pending files below a folder, new: names by
 * folder}. `new` are files and folders that a review may create; some of them do not exist on disk yet.
 */
export function indexPending(pending) {
  const found = { files: new Map(), folders: new Map(), new: new Map() };
  for (const file of pending ?? []) {
    found.files.set(file.file_path, file);
    const names = file.file_path.split("/");
    names.forEach((name, depth) => {
      const folder = names.slice(0, depth).join("/");
      const kind = depth < names.length - 1 ? "directory" : "file";
      if (!found.new.has(folder)) found.new.set(folder, new Map());
      found.new.get(folder).set(name, kind);
      if (depth > 0) found.folders.set(folder, (found.folders.get(folder) ?? 0) + 1);
    });
  }
  return found;
}

/** A folder's entries in tree order, including proposed ones. */
function entriesOf(listing, proposed) {
  const there = listing?.entries ?? [];
  const names = new Set(there.map((entry) => entry.name));
  const fresh = listing?.more ? [] : [...(proposed ?? [])].filter(([name]) => !names.has(name));
  return [...there, ...fresh.map(([name, kind]) => ({ name, kind }))].sort(order);
}

/**
 * The visible rows, from top to bottom: {key, path, name, kind, level, place, size, isOpen, ...}. `kind` is "file",
 * "directory", or that of a message: "loading", "problem", "more". `folders` are the listings by path.
 */
export function rowsOf({ folders, open, waits }) {
  const rows = [];
  const walk = (folder, level) => {
    const listing = folders.get(folder);
    const setText = (kind, words) => rows.push({ key: `${folder}/\0${kind}`, path: folder, kind, level, words });
    if (!listing && !waits.new.has(folder)) return setText("loading", "Loading…");
    if (listing?.problem && !waits.new.has(folder)) return setText("problem", listing.problem);
    const entries = entriesOf(listing, waits.new.get(folder));
    entries.forEach((entry, place) => {
      const path = join(folder, entry.name);
      const isOpen = entry.kind === "directory" && open.has(path);
      const isProposed = waits.files.get(path)?.base_file_hash === NO_FILE;
      rows.push({ ...entry, key: path, path, level, isOpen, isProposed, place: place + 1, size: entries.length });
      if (isOpen) walk(path, level + 1);
    });
    if (listing?.more) setText("more", "More files exist. Find a file by name.");
    else if (entries.length === 0) setText("empty", level === 1 ? "The project is empty." : "No files.");
  };
  walk("", 1);
  return rows;
}

/** The effect of a key: {to}, {open}, {close} or null. `rows` are those with a path. */
export function step(rows, at, key) {
  const index = Math.max(0, rows.findIndex((row) => row.path === at));
  const row = rows[index];
  if (!row) return null;
  const to = (place) => ({ to: rows[Math.max(0, Math.min(rows.length - 1, place))].path });
  const isFolder = row.kind === "directory";
  if (key === "ArrowDown") return to(index + 1);
  if (key === "ArrowUp") return to(index - 1);
  if (key === "Home") return to(0);
  if (key === "End") return to(rows.length - 1);
  if (key === "ArrowRight") return isFolder ? (row.isOpen ? to(index + 1) : { open: row.path }) : null;
  if (key === "ArrowLeft") return row.isOpen ? { close: row.path } : { to: foldersOf(row.path).at(-1) ?? row.path };
  return null;
}

/** The next row after `at` whose name starts with the typed text; with several letters from `at` itself. */
export function findByPrefix(rows, at, text) {
  const wanted = text.toLowerCase();
  const index = Math.max(0, rows.findIndex((row) => row.path === at));
  const from = index + (wanted.length > 1 ? 0 : 1);
  const turned = [...rows.slice(from), ...rows.slice(0, from)];
  return turned.find((row) => row.name.toLowerCase().startsWith(wanted))?.path ?? null;
}
