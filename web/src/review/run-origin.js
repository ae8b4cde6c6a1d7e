// The origin of hunks: the chat, agent or review of each run, with a link to it.

import { fill, h } from "../dom.js";
import { plain } from "../format.js";

/**
 * The origin of a run: {key, name, title, tab | request | session | isUndo}. `run` is a PendingRun, `tabs` are the open ones;
 * `title` is the beginning of its prompt.
 */
export function originOf({ run_id: id, session_id: session, title }, tabs) {
  const words = plain(title);
  if (id.startsWith("rollback_")) return { key: id, name: words || "Rollback", title: words, isUndo: true };
  const tab = tabs.find((each) => each.session === session);
  if (tab) return { key: tab.id, name: plain(tab.title), title: words, tab: tab.id };
  if (session.startsWith("sess_")) return { key: id, name: words ? `Review: ${words}` : "Review", title: words, request: id };
  return { key: session || id, name: words || "A conversation", title: words, session };
}

export class RunOrigins {
  /** `tabs()` returns the open tabs; `go(origin)` shows an origin. */
  constructor({ review, tabs, go }) {
    Object.assign(this, { review, tabs, go });
  }

  /** The origins of runs, without duplicates; unknown runs are left out. */
  of(runIds) {
    const known = this.#known();
    const found = runIds.map((id) => known.get(id)).filter(Boolean);
    return [...new Map(found.map((origin) => [origin.key, origin])).values()];
  }

  /** The origins by run, cached for all hunks that are shown. */
  #known() {
    const [{ runs }, tabs] = [this.review.get(), this.tabs()];
    if (runs !== this.runs || tabs !== this.seenTabs) {
      Object.assign(this, { runs, seenTabs: tabs, byRun: new Map(runs.map((run) => [run.run_id, originOf(run, tabs)])) });
    }
    return this.byRun;
  }

  /** What a run was asked for; "" for an unknown one. */
  titleOf = (run) => this.#known().get(run)?.title ?? "";

  /** The origin of a hunk: "from Agent-1"; "" if the whole file has the same. */
  wordsOf(hunk, file) {
    const isPlain = this.of(file.run_ids).length < 2 || hunk.run_ids.length === 0;
    return isPlain ? "" : `from ${this.of(hunk.run_ids).map(({ name }) => name).join(", ")}`;
  }

  /** Show links to the origins of runs in an element. */
  show(element, runIds) {
    const origins = this.of(runIds);
    const key = JSON.stringify(origins);
    if (element.origins === key) return;
    element.origins = key;
    element.hidden = origins.length === 0;
    fill(element, "from ", ...origins.flatMap((origin, index) => [index > 0 && h("span", {}, " · "), this.#link(origin)]));
  }

  /** A link to the origin of a run: {run_id, session_id, title}. */
  link = (run) => this.#link(originOf(run, this.tabs()));

  #link(origin) {
    const { name, title } = origin;
    return h("button", { type: "button", class: "link", title: title && title !== name ? title : null, onclick: () => this.go(origin) }, name);
  }
}
