// The files of unsent messages, by tab, in the browser's database: the storage of drafts is too small for them. All windows share
// it. Where it is disabled nothing is stored.

import { localStore } from "./local-storage.js";

const NAME = "newel";
const STORE = "draft-files";

let opened = null;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

/** The result of the request that `ask(store)` makes, once it is carried out; undefined if that is not possible. */
async function perform(mode, ask) {
  try {
    const database = await open();
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode);
      const request = ask(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error);
    });
  } catch {
    return undefined; // full or disabled: stored files are a convenience
  }
}

// Known at once, so that a tab is not taken for an empty one.
const marked = (tab) => `files:${tab}`;

/** A summary of files, to tell whether others are the same. */
const summaryOf = (files) => files.map(({ fileName, size }) => [fileName, size]);

/** Whether another window has removed, or sent, just these files of a tab; `removed` as in local-storage.js. */
export const areRemoved = (removed, tab, files) => removed.key === marked(tab) && JSON.stringify(removed.old) === JSON.stringify(summaryOf(files));

/** Whether a tab has an unsent message: text, files, or the edit of an earlier one. */
export const hasDraft = (tab) => [`draft:${tab}`, `edits:${tab}`, marked(tab)].some((key) => Boolean(localStore.get(key)));

export const loadDraftFiles = async (tab) => (localStore.get(marked(tab)) && (await perform("readonly", (store) => store.get(tab)))) || [];

export function saveDraftFiles(tab, files) {
  if (files.length === 0 && !localStore.get(marked(tab))) return;
  localStore.set(marked(tab), files.length ? summaryOf(files) : null);
  perform("readwrite", (store) => (files.length ? store.put(files, tab) : store.delete(tab)));
}

export function forgetDraftFiles(tabs) {
  for (const tab of tabs) perform("readwrite", (store) => store.delete(tab));
}
