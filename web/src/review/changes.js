// The changes made by a conversation's runs and their decisions, for its transcript.

import { formatNumber } from "../format.js";

const MAX_RUNS = 200; // runs of a conversation whose changes are listed, the latest
const NO_CHANGES = [];

const sum = (files, name) => files.reduce((all, file) => all + file[name], 0);

/** The decisions on a run's hunks: "2 to decide · 1 accepted, unsaved · 1 kept · 1 rejected". */
export const describeDecisions = ({ pending, accepted, applied, rejected }) =>
  [[pending, "to decide"], [accepted, "accepted, unsaved"], [applied, "kept"], [rejected, "rejected"]]
    .filter(([count]) => count > 0).map(([count, words]) => `${formatNumber(count)} ${words}`).join(" · ") || "changed since";

export const totalsOf = (files) =>
  Object.fromEntries(["pending", "accepted", "applied", "rejected", "added", "removed"].map((name) => [name, sum(files, name)]));

/** The files of a run as rows: {file, from}. A move is one, with the deleted file as `from`, if the same became of both. */
export function rowsOf({ files, kept_files: kept = [] }) {
  const known = new Map(files.map((file) => [file.file_path, file]));
  const isSame = (one, other) =>
    ["pending", "accepted", "applied", "rejected"].every((state) => one[state] === other[state]) && kept.includes(one.file_path) === kept.includes(other.file_path);
  const sourceOf = (file) => {
    const from = known.get(file.moved_from);
    return from && isSame(file, from) ? from : null;
  };
  const rows = files.map((file) => ({ file, from: sourceOf(file) }));
  const gone = new Set(rows.map(({ from }) => from));
  return rows.filter(({ file }) => !gone.has(file));
}

/**
 * Insert the changes of the runs into the entries of a conversation, each at the end of its turn: [key, item]. `changes` are
 * CheckpointSummaries, the oldest first; those older than the first entry are left out.
 */
export function withChanges(entries, changes) {
  const items = entries.map((entry) => [entry.id, entry]);
  for (const change of changes.toReversed()) {
    const at = change.created_at;
    if (!entries[0] || entries[0].at > at) break;
    let place = entries.findIndex((entry) => entry.kind === "user" && entry.at > at);
    if (place < 0) place = entries.length;
    items.splice(place, 0, [change.checkpoint_id, { kind: "changes", change }]);
  }
  return items;
}

/** The changes of the conversations' runs. `changed()` is called when they change. */
export class RunChanges {
  constructor({ api, review, changed }) {
    Object.assign(this, { api, changed });
    this.known = new Map(); // session → {list, isStale, isReading}
    review.subscribe(({ pending }) => {
      if (pending === this.pending) return;
      this.pending = pending;
      for (const one of this.known.values()) one.isStale = true;
      changed();
    });
  }

  /**
   * The changes of a session's runs, the oldest first; requested if they are `isWanted`, or were before. Returns the same array
   * as long as nothing changes.
   */
  of(session, isWanted = true) {
    if (!isWanted && !this.known.has(session)) return NO_CHANGES;
    if (!this.known.has(session)) this.known.set(session, { list: NO_CHANGES, isStale: true, isReading: false });
    const one = this.known.get(session);
    if (one.isStale && !one.isReading) this.#read(session, one);
    return one.list;
  }

  /** Drop all sessions but these. */
  keep(sessions) {
    for (const session of this.known.keys()) if (!sessions.includes(session)) this.known.delete(session);
  }

  async #read(session, one) {
    Object.assign(one, { isStale: false, isReading: true });
    try {
      const { checkpoints } = await this.api.checkpoints({ session, limit: MAX_RUNS });
      const before = new Map(one.list.map((each) => [each.checkpoint_id, each]));
      const runs = checkpoints.filter((each) => !each.job_id.startsWith("rollback_")).reverse();
      const list = runs.map((each) => {
        const old = before.get(each.checkpoint_id);
        return old && JSON.stringify(old) === JSON.stringify(each) ? old : each;
      });
      if (list.length !== one.list.length || list.some((each, index) => each !== one.list[index])) {
        one.list = list;
        this.changed();
      }
    } catch {
      // Keep the current list. It is read again with the next change or reconnection, as both bring a new list of pending changes.
    } finally {
      one.isReading = false;
    }
    if (one.isStale) this.changed(); // something changed meanwhile: the view asks again
  }
}
