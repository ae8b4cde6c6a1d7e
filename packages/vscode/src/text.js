// Texts of models and tools for people: nothing in them controls, hides or reverses what is shown.

/** Characters of a preview that a dialog shows; all of it is in the output. */
const MAX_PREVIEW = 1_500;

/** Line ends stay; other control characters, and those that are invisible or turn the direction of text, are written out. @param {string} text */
export const plain = (text) =>
  text
    .replace(/\r\n/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);

/** On one line of at most `limit` characters. @param {string} text @param {number} limit */
export function oneLine(text, limit = 120) {
  const line = plain(text).split(/\s+/).join(" ").trim();
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}

/** The beginning of a preview, for a dialog. @param {string} text */
export function shortPreview(text) {
  const whole = plain(text);
  return whole.length > MAX_PREVIEW ? `${whole.slice(0, MAX_PREVIEW)}\n… The whole is in the output.` : whole;
}

const SUBJECTS = ["command", "file_path", "pattern", "path"];

/** A tool call on one line. @param {string} name @param {Record<string, unknown>} args */
export function describeCall(name, args) {
  const subject = SUBJECTS.map((key) => args[key]).find((value) => typeof value === "string");
  return oneLine(`${name} ${subject ?? JSON.stringify(args)}`);
}
