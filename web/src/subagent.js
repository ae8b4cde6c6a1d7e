// What a call's subagent did: its answers and calls, nested below the call.

import { h, reconcile } from "./dom.js";
import { plain, revealPath } from "./format.js";

const SHOWN = new Set(["assistant", "retry", "error", "end"]); // its task and its prompt are shown with the call

export class SubagentView {
  /** `makeView(item)` makes the view of an entry, `load(call, session)` loads what the subagent did; null if that always comes with the events. */
  constructor({ makeView, load }) {
    Object.assign(this, { makeView, load });
    this.views = new Map();
    this.entries = h("div", { class: "entries" });
    this.note = h("p", { class: "dim", role: "status" });
    this.el = h("section", { class: "subagent" }, this.note, this.entries);
  }

  /** `state` as in transcript.js, with what the subagent did or, in the result, its session. */
  update(call, state) {
    this.el.setAttribute("aria-label", `Subagent ${revealPath(String(call.arguments?.description ?? ""))}`);
    if (state.nested) this.#show(state.nested);
    else this.#load(call.id, state.result.details);
  }

  /** Whether what is shown ends with these words, its answer. */
  hasSaid(answer) {
    const parts = this.items?.at(-1)?.message?.content ?? [];
    return parts.length > 0 && parts.map((part) => part.text ?? "").join("") === answer;
  }

  #show(nested) {
    const items = nested.entries.filter((entry) => SHOWN.has(entry.kind));
    this.items = items;
    this.note.hidden = items.length > 0;
    if (items.length === 0) this.note.textContent = "Nothing done yet.";
    reconcile(this.entries, this.views, items, {
      keyOf: (item) => item.id, create: this.makeView, update: (view, item) => view.update(item, nested),
    });
  }

  async #load(call, { session, log = [] }) {
    if (this.loaded === session) return;
    this.loaded = session;
    this.note.hidden = false;
    this.note.textContent = "Loading…";
    try {
      await this.load(call, session);
    } catch (error) {
      this.loaded = null; // the next time that the call is unfolded
      this.note.textContent = `${error.message} ${log.length ? "Its calls were:" : ""}`;
      this.entries.replaceChildren(...(log.length ? [h("pre", { class: "output", tabindex: "0", "aria-label": "Calls" }, plain(log.join("\n")))] : []));
    }
  }
}
