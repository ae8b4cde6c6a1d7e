// What the runs of a conversation changed, and what has become of it, for its transcript.

import { fill, h, icon, setAttr } from "../dom.js";
import { pluralize, revealPath } from "../format.js";

const LIMIT = 200; // runs of a conversation whose changes are told: the latest
const LISTED = 6; // files of a run that are named
const NONE = [];

const sum = (files, name) => files.reduce((all, file) => all + file[name], 0);

/** What became of the hunks of a run: "2 to decide · 1 accepted, not saved · 1 kept · 1 rejected". */
export const describeDecisions = ({ pending, accepted, applied, rejected }) =>
  [pending && `${pending} to decide`, accepted && `${accepted} accepted, not saved`, applied && `${applied} kept`, rejected && `${rejected} rejected`]
    .filter(Boolean).join(" · ") || "changed since";

export const totalsOf = (files) =>
  Object.fromEntries(["pending", "accepted", "applied", "rejected"].map((name) => [name, sum(files, name)]));

/**
 * The entries of a conversation with its runs' changes between them, as [key, item]: each at the end of what was done for one
 * prompt. `changes` are CheckpointSummaries, the oldest first; those of a time before the first entry are left out.
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

/** What is known of the conversations' runs. `changed()` is called when more is. */
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
   * The changes of a session's runs, the oldest first; asked for if they are `isWanted`, or were before. The same array while
   * nothing is new.
   */
  of(session, isWanted = true) {
    if (!isWanted && !this.known.has(session)) return NONE;
    if (!this.known.has(session)) this.known.set(session, { list: NONE, isStale: true, isReading: false });
    const one = this.known.get(session);
    if (one.isStale && !one.isReading) this.#read(session, one);
    return one.list;
  }

  /** Forget all sessions but these. */
  keep(sessions) {
    for (const session of this.known.keys()) if (!sessions.includes(session)) this.known.delete(session);
  }

  async #read(session, one) {
    Object.assign(one, { isStale: false, isReading: true });
    try {
      const { checkpoints } = await this.api.checkpoints({ session, limit: LIMIT });
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
      // What is known stays. It is read with the next change, or when the connection is back: both bring a new list of what waits.
    } finally {
      one.isReading = false;
    }
    if (one.isStale) this.changed(); // something changed meanwhile: whoever shows it asks again
  }
}

/** The changes of a run in its transcript. `does`: review(change) goes to its first hunk, openFile(path). */
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
      h("ul", { class: "changes-files" }, ...files.slice(0, LISTED).map((file) => this.#file(file)),
        files.length > LISTED && h("li", { class: "dim" }, `and ${pluralize(files.length - LISTED, "more file")}`)));
    if (hadFocus) this.el.querySelector("button").focus();
  }

  #file(file) {
    const name = revealPath(file.file_path);
    return h("li", {},
      h("button", { type: "button", class: "link mono", title: name, onclick: () => this.actions.openFile(file.file_path) }, name), " ",
      h("span", { class: "dim" }, describeDecisions(file)));
  }
}
