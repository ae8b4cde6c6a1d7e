// The last lines of a server's output, for the page that explains why it does not run.

const MAX_LINES = 200;
const MAX_LINE = 500;
const TOKEN = /(token=)[A-Za-z0-9_-]+/g;
// Control characters, and those that change the direction of text.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const ESCAPE_SEQUENCE = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?)/g;

/** Text without escape sequences, invisible characters and tokens. @param {string} text */
export const plain = (text) => text.replace(ESCAPE_SEQUENCE, "").replace(HIDDEN, "").replace(TOKEN, "$1…");

export class LogTail {
  #lines = /** @type {string[]} */ ([]);
  #rest = "";

  /** @param {string} chunk */
  add(chunk) {
    const lines = (this.#rest + chunk).split(/\r\n|\r|\n/);
    this.#rest = (lines.pop() ?? "").slice(-2 * MAX_LINE);
    for (const line of lines) this.#lines.push(shorten(line));
    if (this.#lines.length > MAX_LINES) this.#lines.splice(0, this.#lines.length - MAX_LINES);
  }

  get text() {
    return [...this.#lines, ...(this.#rest ? [shorten(this.#rest)] : [])].join("\n").trim();
  }
}

/** @param {string} line */
function shorten(line) {
  const text = plain(line.slice(0, 4 * MAX_LINE));
  return text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)}…` : text;
}
