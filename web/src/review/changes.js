// The changes made by a conversation's runs and their decisions, for its transcript.

import { fill, h, icon, setAttr } from "../dom.js";
import { pluralize, revealPath } from "../format.js";

const MAX_RUNS = 200; // runs of a conversation whose changes are listed, the latest
const MAX_LISTED = 6; // files of a run that are listed
const NO_CHANGES = [];

const sum = (files, name) => files.reduce((all, file) => all + file[name], 0);

/** The decisions on a run's hunks: "2 to decide · 1 accepted, unsaved · 1 kept · 1 rejected". */
export const describeDecisions = ({ pending, accepted, applied, rejected }) =>
  [pending && `${pending} to decide`, accepted && `${accepted} accepted, unsaved`, applied && `${applied} kept`, rejected && `${rejected} rejected`]
    .filter(Boolean).join(" · ") || "changed since";

export const totalsOf = (files) =>
  Object.fromEntries(["pending", "accepted", "applied", "rejected"].map((name) => [name, sum(files, name)]));

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

/** The changes of a run in the transcript. `actions`: review(change) goes to its first hunk, openFile(path). */
export class ChangesView {
  constructor(actions) {
    this.actions = actions;
    this.el = h("div", { class: "entry changes", role: "group", "aria-label": "Changes of this run" });
  }

  update({ change }) {
    if (change === this.change) return;
    this.change = change;
    const { files } = change;
    const totals = totalsOf(files);
    const waits = totals.pending > 0;
    const wanted = waits || totals.accepted > 0;
    setAttr(this.el, "data-waits", waits);
    const hadFocus = this.el.contains(document.activeElement);
    fill(this.el,
      h("div", { class: "changes-head" },
        icon(waits ? "edit" : "check"),
        h("strong", {}, waits ? `${pluralize(totals.pending, "hunk")} to review` : pluralize(files.length, "changed file")), " ",
        h("span", { class: "dim" }, waits ? `in ${pluralize(files.filter((file) => file.pending > 0).length, "file")}` : describeDecisions(totals)),
        h("span", { class: "spacer" }),
        wanted && h("button", { type: "button", class: waits ? "primary" : null, onclick: () => this.actions.review(change) }, "Review")),
      h("ul", { class: "changes-files" }, ...files.slice(0, MAX_LISTED).map((file) => this.#file(file)),
        files.length > MAX_LISTED && h("li", { class: "dim" }, `and ${pluralize(files.length - MAX_LISTED, "more file")}`)));
    if (hadFocus) this.el.querySelector("button").focus();
  }

  #file(file) {
    const name = revealPath(file.file_path);
    return h("li", {},
      h("button", { type: "button", class: "link mono", title: name, onclick: () => this.actions.openFile(file.file_path) }, name), " ",
      h("span", { class: "dim" }, describeDecisions(file)));
  }
}
