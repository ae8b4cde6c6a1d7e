// What is typed in a file and not sent yet, kept in the browser until it is.
//
//   {rev, changes, check}   `changes` of the text of revision `rev`; `check` tells whether that is the text they were made in

import { ChangeSet } from "@codemirror/state";
import { copyButton, h, icon } from "../dom.js";
import { revealPath } from "../format.js";
import { EditorSync } from "./editor-sync.js";
import { hashText } from "./text-hash.js";
import { fileOf } from "./splices.js";
import { lostKey, typedKey } from "./unsent-edits.js";

const AROUND = 200; // characters of the text beside the first change that are looked at

/** The EditorSync of a file, with `onText`, `onChange`, `onTyped` as it wants them, of which is kept what is unsent. */
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

/** What is kept is let go once it is sent; what another editor kept is not this one's to let go. */
function storeUnsent(unsent, sync) {
  const changes = sync.local;
  const record = { rev: sync.known.view.rev, changes: changes.toJSON(), check: checkOf(sync.known.text, changes) };
  if (sync.isTyped || sync.hasKept) unsent.set(typedKey(sync.path), sync.isTyped ? record : null);
  sync.hasKept = sync.isTyped;
}

/**
 * What a file's editor begins with: {view, changes, lost}. `changes` were typed on `view`, which is the file as it was then; null
 * for none. `lost` is a record that fits nowhere, and is kept as such. Rejects if the file cannot be read.
 */
export async function loadInitialState({ path, api, review, unsent }) {
  const record = await unsent.find(typedKey(path));
  const then = record && (await api.file(path, record.rev).catch((error) => {
    if (error.code === "connection") throw error;
    return null; // that revision is not known any more
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

/** What was typed and fits nowhere, to be copied; `gone()` is called once the user has done with it. */
export function unsavedTextCard(record, { path, unsent, gone }) {
  const text = insertedBy(record);
  const discard = () => {
    unsent.set(lostKey(path), null);
    gone();
  };
  const area = h("textarea", { class: "mono", readonly: true, rows: "4", "aria-label": `What was typed in ${revealPath(path)}`, value: text });
  return h("section", { class: "file-lost", role: "status" },
    h("p", {}, icon("warn"), ` What you typed in ${revealPath(path)} could not be sent, and the file it was typed in is not there any more. Copy what you need.`),
    area, h("div", { class: "row" }, copyButton(() => text), h("button", { type: "button", onclick: discard }, "Discard it")));
}

function checkOf(text, changes) {
  let first = null;
  changes.iterChangedRanges((from, to) => (first ??= [from, to]));
  if (!first) return "";
  return hashText(text.sliceString(Math.max(0, first[0] - AROUND), Math.min(text.length, first[0] + AROUND), "\n"));
}

/** The changes of a record, if they were made in this text. */
function changesOf(record, text) {
  try {
    const changes = ChangeSet.fromJSON(record.changes);
    return changes.length === text.length && checkOf(text, changes) === record.check ? changes : null;
  } catch {
    return null; // no changes at all
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
