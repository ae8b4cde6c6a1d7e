// A hunk in the list of pending changes: its place, a preview, its buttons.

import { fill, h, icon, keepFocus, onceClicked, setText, setAttr } from "../dom.js";
import { truncate, diffLines, plain, pluralize, reveal } from "../format.js";
import { KEEP_FILE, describePendingDecision, formatPlace, isSplittable, isUndecided, keepLabel } from "./hunk-format.js";
import { withMarks } from "./patch-view.js";
import { changedInDiff } from "../word-diff.js";
import { describeWholeFile } from "./change-labels.js";
import { describeRevision, isRevisable } from "./revisions.js";

const MAX_LINES = 5; // lines of a hunk that are shown
const MAX_LINE_LENGTH = 160; // characters of a line

/** The first changed lines of a patch, and the number of others: {lines: [{kind, text}], more}. */
export function previewPatch(patch) {
  const all = diffLines(patch).filter(({ kind }) => kind === "add" || kind === "del");
  const lines = all.slice(0, MAX_LINES).map(({ kind, text }) => ({ kind, text: truncate(reveal(text.replace(/\r$/, "")), MAX_LINE_LENGTH) }));
  return { lines, more: all.length - lines.length };
}

/** A line of the preview with its sign, and its changed words marked. */
function previewLine({ kind, text }, changed) {
  return h("span", { class: kind }, text.slice(0, 1), withMarks(text.slice(1), changed));
}

const STATES = { pending: "", accepted: "accepted, unsaved", rejected: "rejected", applied: "saved" };

export class HunkRow {
  /** `actions`: open(hunk), withdraw(hunk), revise(hunk), split(hunk), decide(hunk, action, mine), which resolves to an error message, or "". */
  constructor(actions) {
    this.actions = actions;
    this.where = h("span", { class: "hunk-where" });
    this.peek = h("span", { class: "peek mono" });
    this.main = h("button", { type: "button", class: "hunk-main", "data-item": "hunk", onclick: () => actions.open(this.hunk) }, this.where, this.peek);
    const button = (words, act, props = {}) => h("button", { type: "button", onclick: onceClicked(act), ...props }, words);
    this.accept = button("Accept", () => this.decide("accept"));
    this.reject = button("Reject", () => this.decide("reject"));
    this.reopen = button("Undo accept", () => this.decide("reopen"));
    this.back = button("Undo", () => actions.withdraw(this.hunk));
    this.revise = button("Revise", () => actions.revise(this.hunk), { class: "quiet", title: "Say what should be different (C)" });
    this.split = button("Split", () => this.#split(), { class: "quiet" });
    this.note = h("p", { class: "hunk-note", hidden: true });
    this.peel = button("Discard only my lines", () => this.decide("reject", "peel"));
    this.choice = h("div", { class: "row", role: "group", "aria-label": "What to discard", hidden: true }, h("span", {}, "It contains your lines."),
      this.peel, button("Revert to file", () => this.decide("reject", "base")), button("Cancel", () => this.#ask(false)));
    // "Undo accept" takes the place of "Accept": a second click there must not reject.
    this.buttons = h("div", { class: "row row-actions" }, this.accept, this.reopen, this.reject, this.back, this.split, this.revise);
    this.el = h("li", { class: "listed-hunk" }, this.main, this.buttons, this.choice, this.note);
    this.el.row = this;
    this.problem = ""; // why the last decision failed
  }

  get isOpen() {
    return this.state === "pending" && isUndecided(this.hunk) && !this.waits;
  }

  /**
   * `wanted` is its pending decision or null: shown as made, or as pending while there is no connection. `from` describes its
   * origin, "" for none; `revision` and `answer` as in revisions.js.
   */
  update(given) {
    keepFocus(this.el, () => this.main, () => this.#update(given));
  }

  #update({ hunk, file, wanted, isUp, from, revision, answer }) {
    const { conflict, mine, origin } = hunk;
    const isBusy = isUp && wanted !== null;
    const waits = isUp ? null : wanted;
    const state = isUp && wanted in STATES ? wanted : hunk.state;
    for (const each of [this.accept, this.reject, this.reopen]) each.disabled = isBusy;
    setAttr(this.el, "aria-busy", isBusy);
    const next = { hunk, from, waits, state, revision, answer };
    if (Object.keys(next).every((name) => next[name] === this[name])) return;
    if (this.state !== state) this.choice.hidden = true;
    Object.assign(this, next);
    const words = [
      hunk.kind === "lines" && formatPlace(hunk), conflict && "conflict", hunk.warning, hunk.oversized_hunk && "large",
      origin === "user" ? "yours" : mine && "edited by you", STATES[state], waits && describePendingDecision(waits), revision && reveal(describeRevision(revision)), from,
    ];
    setText(this.where, words.filter(Boolean).join(" · "));
    setAttr(this.el, "data-state", state);
    setAttr(this.el, "data-origin", origin);
    setAttr(this.el, "data-waits", waits);
    setAttr(this.el, "data-conflict", conflict);
    setAttr(this.buttons, "data-asks", (conflict && state === "pending") || waits !== null || null);
    setAttr(this.el, "data-warning", Boolean(hunk.warning));
    const { lines, more } = previewPatch(hunk.patch);
    const changed = changedInDiff(lines.map(({ kind, text }) => ({ kind, text: text.slice(1) })));
    fill(this.peek,
      lines.length === 0 && h("span", { class: "same" }, describeWholeFile(hunk, file)),
      ...lines.map((line, at) => previewLine(line, changed.get(at))),
      more > 0 && h("span", { class: "same" }, `… ${pluralize(more, "more line")}`));
    const isOwn = origin === "user";
    this.back.hidden = waits === null;
    this.accept.hidden = waits !== null || state !== "pending" || (isOwn && !conflict);
    this.reject.hidden = waits !== null || (state !== "pending" && state !== "accepted");
    this.reopen.hidden = waits !== null || (state !== "rejected" && (state !== "accepted" || isOwn));
    this.peel.hidden = isOwn;
    this.split.hidden = waits !== null || state !== "pending" || revision !== null || !hunk.oversized_hunk || !isSplittable(hunk);
    this.revise.hidden = waits !== null || revision !== null || !isRevisable(hunk);
    setText(this.accept, conflict ? keepLabel(hunk) : "Accept");
    setText(this.reject, conflict ? KEEP_FILE : isOwn ? "Discard" : "Reject");
    setText(this.reopen, state === "rejected" ? "Restore" : "Undo accept");
    this.#note(this.problem);
  }

  /** Resolves to whether it was done. */
  async decide(action, mine = null) {
    if (action === "reject" && this.hunk.mine && mine === null) {
      this.#ask(true);
      return false;
    }
    this.problem = "";
    this.problem = await this.actions.decide(this.hunk, action, mine);
    this.#note(this.problem);
    if (!this.problem) this.choice.hidden = true;
    return !this.problem;
  }

  async #split() {
    this.problem = await this.actions.split(this.hunk);
    this.#note(this.problem);
  }

  /** Ask what to discard of a hunk with the user's own lines, or hide that question. */
  #ask(isAsking) {
    this.choice.hidden = !isAsking;
    const to = isAsking ? this.choice.querySelector("button:not([hidden])") : this.main;
    to.focus();
  }

  /** Show why the last decision failed, or a hint about a conflict. */
  #note(problem) {
    const { conflict } = this.hunk;
    const answer = this.answer && !this.revision ? `No new version: ${plain(this.answer)}` : "";
    const words = problem || answer || (conflict && this.state === "pending" ? `The file changed here. ${keepLabel(this.hunk)} overwrites the current text.` : "");
    this.note.hidden = words === "";
    fill(this.note, icon("warn"), h("span", {}, words));
  }
}
