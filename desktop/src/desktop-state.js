// What the shell remembers: the recent folders, and each one's window and port. A damaged file is as none.

import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * @typedef {{ x: number, y: number, width: number, height: number }} Bounds
 * @typedef {{ bounds: Bounds | null, isMaximized: boolean, port: number }} FolderState
 */

export const WIDTH = 900;
export const HEIGHT = 700;
const MIN_WIDTH = 400;
const MIN_HEIGHT = 300;
const MAX_RECENT = 10;
const MAX_FILE = 256 * 1024;
const MIN_VISIBLE = 100; // pixels of a window that must be on a screen, to be grasped

export class DesktopState {
  /** @type {Map<string, FolderState>} the latest first */
  #folders = new Map();

  /** @param {string} path */
  constructor(path) {
    this.path = path;
    for (const [folder, state] of readFolders(path)) this.#folders.set(folder, state);
  }

  /** The recent folders, the latest first. */
  get recent() {
    return [...this.#folders.keys()];
  }

  /** @param {string} folder @returns {FolderState} */
  of(folder) {
    return this.#folders.get(folder) ?? { bounds: null, isMaximized: false, port: 0 };
  }

  /** Remember something of a folder, which becomes the latest. @param {string} folder @param {Partial<FolderState>} change */
  remember(folder, change) {
    const state = { ...this.of(folder), ...change };
    this.#folders.delete(folder);
    /** @type {[string, FolderState][]} */
    const entries = [[folder, state], ...this.#folders];
    this.#folders = new Map(entries.slice(0, MAX_RECENT));
    this.#write();
  }

  clear() {
    this.#folders.clear();
    this.#write();
  }

  #write() {
    const folders = [...this.#folders].map(([folder, state]) => ({ folder, ...state }));
    const temporary = `${this.path}.${process.pid}.tmp`;
    try {
      mkdirSync(dirname(this.path), { recursive: true });
      writeFileSync(temporary, JSON.stringify({ folders }, null, 2), { mode: 0o600 });
      renameSync(temporary, this.path);
    } catch (error) {
      console.error(`newel: ${this.path} cannot be written: ${error instanceof Error ? error.message : error}`);
    }
  }
}

/** @param {string} path @returns {[string, FolderState][]} */
function readFolders(path) {
  let given;
  try {
    const text = readFileSync(path, "utf8");
    given = text.length <= MAX_FILE ? JSON.parse(text) : null;
  } catch {
    return [];
  }
  /** @type {any[]} */
  const rows = Array.isArray(given?.folders) ? given.folders.slice(0, MAX_RECENT) : [];
  return rows.filter((row) => typeof row?.folder === "string" && row.folder.startsWith("/"))
    .map(entryOf);
}

/** @param {any} row @returns {[string, FolderState]} */
const entryOf = (row) => [row.folder, folderState(row)];

/** @param {any} row @returns {FolderState} */
const folderState = (row) => ({
  bounds: isBounds(row.bounds) ? row.bounds : null,
  isMaximized: row.isMaximized === true,
  port: Number.isInteger(row.port) && row.port > 0 && row.port < 65536 ? row.port : 0,
});

/** @param {any} given @returns {given is Bounds} */
const isBounds = (given) =>
  ["x", "y", "width", "height"].every((name) => Number.isInteger(given?.[name]) && Math.abs(given[name]) < 100_000) &&
  given.width >= MIN_WIDTH && given.height >= MIN_HEIGHT;

/**
 * Bounds for a new window: the saved ones if enough of them, with the title bar, is on a screen; else only their size, which
 * no screen is smaller than.
 * @param {Bounds | null} saved @param {Bounds[]} screens the work areas, the primary one first
 * @returns {Partial<Bounds> & { width: number, height: number }}
 */
export function fitBounds(saved, screens) {
  if (!saved) return { width: WIDTH, height: HEIGHT };
  const isReachable = screens.some((screen) => {
    const right = Math.min(saved.x + saved.width, screen.x + screen.width);
    const visible = right - Math.max(saved.x, screen.x);
    return visible >= MIN_VISIBLE && saved.y >= screen.y && saved.y <= screen.y + screen.height - MIN_VISIBLE;
  });
  if (isReachable) return saved;
  const [primary] = screens;
  return {
    width: Math.min(saved.width, primary?.width ?? WIDTH),
    height: Math.min(saved.height, primary?.height ?? HEIGHT),
  };
}
