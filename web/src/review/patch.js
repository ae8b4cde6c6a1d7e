// Parser for the server's unified diffs. Pure functions.

const HEAD = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

/**
 * Parse a patch into its files: [{path, notes, isBinary, hunks}], a hunk being {head, lines: [{kind, text, old, new}]}. `kind` is
 * "add", "del", "same" or "note"; `old` and `new` are the line's numbers, null where it has none. A hunk's lines are counted
 * by its head, so that a removed "-- a" is not taken for a file head. A part without a file head has the path "".
 */
export function parsePatch(patch) {
  const files = [];
  const lines = patch.split("\n");
  if (lines.at(-1) === "") lines.pop();
  let file = null;
  const begin = (path) => {
    file = { path, notes: [], isBinary: false, hunks: [] };
    files.push(file);
  };
  for (let at = 0; at < lines.length; ) {
    const text = lines[at];
    const head = HEAD.exec(text);
    if (head) {
      if (!file) begin("");
      at = takeHunk(lines, at, head, file.hunks);
      continue;
    }
    if (text.startsWith("diff --git ")) begin(newPath(text));
    else if (file && /^(new|deleted) file mode|^(old|new) mode/.test(text)) file.notes.push(text);
    else if (file && text.startsWith("Binary files ")) file.isBinary = true;
    at += 1;
  }
  return files;
}

function takeHunk(lines, at, [head, , oldCount = "1", , newCount = "1"], hunks) {
  const [, oldStart, , newStart] = HEAD.exec(lines[at]).map(Number);
  const hunk = { head, lines: [] };
  const place = { old: oldStart, new: newStart };
  const left = { old: Number(oldCount), new: Number(newCount) };
  let next = at + 1;
  for (; next < lines.length && (left.old > 0 || left.new > 0 || lines[next].startsWith("\\")); next += 1) {
    const sign = lines[next][0];
    const text = lines[next].slice(1);
    const kind = { "+": "add", "-": "del", "\\": "note" }[sign] ?? "same";
    const has = { old: kind === "del" || kind === "same", new: kind === "add" || kind === "same" };
    hunk.lines.push({ kind, text, old: has.old ? place.old : null, new: has.new ? place.new : null });
    for (const side of ["old", "new"]) {
      if (!has[side]) continue;
      place[side] += 1;
      left[side] -= 1;
    }
  }
  hunks.push(hunk);
  return next;
}

const newPath = (line) => {
  const quoted = / "b\/(.*)"$/.exec(line);
  return quoted ? quoted[1] : line.slice(line.lastIndexOf(" b/") + 3);
};

/** How many lines a patch adds and removes: {added, removed}. */
export function sizeOf(files) {
  const lines = files.flatMap((file) => file.hunks).flatMap((hunk) => hunk.lines);
  const count = (kind) => lines.filter((line) => line.kind === kind).length;
  return { added: count("add"), removed: count("del") };
}

/**
 * A hunk's lines in two columns: [{old, new}], each a line or null. Common lines are paired; within a
 * change the first removed line is paired with the first added one, and so on.
 */
export function paired(lines) {
  const rows = [];
  let gone = [];
  let come = [];
  const flush = () => {
    for (let at = 0; at < Math.max(gone.length, come.length); at += 1) rows.push({ old: gone[at] ?? null, new: come[at] ?? null });
    [gone, come] = [[], []];
  };
  for (const line of lines) {
    if (line.kind === "del") gone.push(line);
    else if (line.kind === "add") come.push(line);
    else if (line.kind === "same") {
      flush();
      rows.push({ old: line, new: line });
    }
  }
  flush();
  return rows;
}
