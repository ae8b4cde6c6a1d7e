// Whose hunks are: the chat, the agent or the review that each run was of, and the way there.

import { fill, h } from "../dom.js";
import { plain } from "../format.js";

/**
 * What a run is called, and where it is: {key, name, title, tab | request | session | isUndo}. `run` is a PendingRun, `tabs` are those
 * that are open. `title` begins its prompt.
 */
export function originOf({ run_id: id, session_id: session, title }, tabs) {
  const words = plain(title);
  if (id.startsWith("rollback_")) return { key: id, name: words || "An undo", title: words, isUndo: true };
  const tab = tabs.find((each) => each.session === session);
  if (tab) return { key: tab.id, name: plain(tab.title), title: words, tab: tab.id };
  if (session.startsWith("sess_")) return { key: id, name: words ? `Review: ${words}` : "Review", title: words, request: id };
  return { key: session || id, name: words || "A conversation", title: words, session };
}

export class RunOrigins {
  /** `tabs()` are those of the page; `go(origin)` shows what a hunk comes from. */
  constructor({ review, tabs, go }) {
    Object.assign(this, { review, tabs, go });
  }

  /** Where the hunks of these runs come from, each place once. Runs that nobody knows any more are left out. */
  of(runIds) {
    const known = this.#known();
    const found = runIds.map((id) => known.get(id)).filter(Boolean);
    return [...new Map(found.map((origin) => [origin.key, origin])).values()];
  }

  /** The origins by run: found once for all hunks that are shown. */
  #known() {
    const [{ runs }, tabs] = [this.review.get(), this.tabs()];
    if (runs !== this.runs || tabs !== this.seenTabs) {
      Object.assign(this, { runs, seenTabs: tabs, byRun: new Map(runs.map((run) => [run.run_id, originOf(run, tabs)])) });
    }
    return this.byRun;
  }

  /** Where a hunk comes from, in words, if that is not so of all of its file: "from Agent-1". */
  wordsOf(hunk, file) {
    const isPlain = this.of(file.run_ids).length < 2 || hunk.run_ids.length === 0;
    return isPlain ? "" : `from ${this.of(hunk.run_ids).map(({ name }) => name).join(", ")}`;
  }

  /** Fill an element with links to where hunks come from, if these are others than it has. */
  show(element, runIds) {
    const origins = this.of(runIds);
    const key = JSON.stringify(origins);
    if (element.origins === key) return;
    element.origins = key;
    element.hidden = origins.length === 0;
    fill(element, "from ", ...origins.flatMap((origin, index) => [index > 0 && h("span", {}, " · "), this.#link(origin)]));
  }

  /** A link to where a run was: {run_id, session_id, title}. */
  link = (run) => this.#link(originOf(run, this.tabs()));

  #link(origin) {
    const { name, title } = origin;
    return h("button", { type: "button", class: "link", title: title && title !== name ? title : null, onclick: () => this.go(origin) }, name);
  }
}
