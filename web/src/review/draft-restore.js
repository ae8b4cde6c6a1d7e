// Unsent edits of a file, stored in the browser until they are sent.
//
//   {rev, changes, check}   `changes` to the text of revision `rev`; `check` verifies that text

import { ChangeSet } from "@codemirror/state";
import { copyButton, h, icon } from "../dom.js";
import { revealPath } from "../format.js";
import { EditorSync } from "./editor-sync.js";
import { hashText } from "./text-hash.js";
import { fileOf } from "./splices.js";
import { lostKey, typedKey } from "./unsent-edits.js";

const CONTEXT_LENGTH = 200; // characters of text around the first change that are hashed

/** Create the EditorSync of a file, with its callbacks, and store its unsent edits. */
export function createStoredSync({ path, view, api, review, unsent, onChange, ...on }) {
  const taken = (answer) => review.take(path, answer);
  const sync = new EditorSync({
    ...on, path, view,
    api: { file: () => taken(api.file(path)), edit: (...words) => taken(api.edit(...words)), untilUp: api.untilUp },
    onChange: () => {
      storeUnsent(unsent, sync);
      onChange();
    },
  });
  return sync;
}

/** Store unsent edits; remove them once they are sent, but never those that another editor stored. */
function storeUnsent(unsent, sync) {
  const changes = sync.local;
  const record = { rev: sync.known.view.rev, changes: changes.toJSON(), check: checkOf(sync.known.text, changes) };
  if (sync.isTyped || sync.hasKept) unsent.set(typedKey(sync.path), sync.isTyped ? record : null);
  sync.hasKept = sync.isTyped;
}

/**
 * Load the initial state of a file's editor: {view, changes, lost}. `changes` are stored edits of `view`, the file at their
 * revision; null for none. `lost` is a record that cannot be applied any more. Rejects if the file cannot be read.
 */
export async function loadInitialState({ path, api, review, unsent }) {
  const record = await unsent.find(typedKey(path));
  const then = record && (await api.file(path, record.rev).catch((error) => {
    if (error.code === "connection") throw error;
    return null; // the server no longer has that revision
  }));
  const changes = then?.content != null ? changesOf(record, fileOf(then.content).text) : null;
  if (record && !changes) {
    unsent.set(lostKey(path), record);
    unsent.set(typedKey(path), null);
  }
  const lost = await unsent.find(lostKey(path));
  if (changes) return { view: then, changes, lost };
  return { view: await review.take(path, api.file(path)), changes, lost };
}

/** A card with edits that cannot be applied, for copying; `gone()` is called when the user discards them. */
export function unsavedTextCard(record, { path, unsent, gone }) {
  const text = insertedBy(record);
  const discard = () => {
    unsent.set(lostKey(path), null);
    gone();
  };
  const area = h("textarea", { class: "mono", readonly: true, rows: "4", "aria-label": `Unsent edits to ${revealPath(path)}`, value: text });
  return h("section", { class: "file-lost", role: "status" },
    h("p", {}, icon("warn"), ` Your edits to ${revealPath(path)} could not be sent, and the file no longer exists. Copy what you need.`),
    area, h("div", { class: "row" }, copyButton(() => text), h("button", { type: "button", onclick: discard }, "Discard")));
}

function checkOf(text, changes) {
  let first = null;
  changes.iterChangedRanges((from, to) => (first ??= [from, to]));
  if (!first) return "";
  return hashText(text.sliceString(Math.max(0, first[0] - CONTEXT_LENGTH), Math.min(text.length, first[0] + CONTEXT_LENGTH), "\n"));
}

/** The changes of a record, if they apply to this text; else null. */
function changesOf(record, text) {
  try {
    const changes = ChangeSet.fromJSON(record.changes);
    return changes.length === text.length && checkOf(text, changes) === record.check ? changes : null;
  } catch {
    return null; // not a change set
  }
}

function insertedBy(record) {
  const pieces = [];
  try {
    ChangeSet.fromJSON(record.changes).iterChanges((_, __, ___, ____, inserted) => inserted.length && pieces.push(inserted.toString()));
  } catch {
    pieces.push(JSON.stringify(record.changes));
  }
  return pieces.join("\n");
}
