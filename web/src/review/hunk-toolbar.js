// The toolbar above each hunk in the editor: its state, its buttons, and the lines it removes.

import { WidgetType } from "@codemirror/view";
import { h, icon, onceClicked } from "../dom.js";
import { plain, truncate, pluralize, reveal } from "../format.js";
import { KEEP_FILE, keepLabel, linesOf, formatPlace, describePendingDecision, isSplittable } from "./hunk-format.js";
import { withMarks } from "./patch-view.js";
import { changedIn } from "../word-diff.js";
import { describeRevision, isRevisable } from "./revisions.js";

const FOLDED_LINES = 3; // lines that are shown while folded
const MAX_LINE_LENGTH = 2_000; // characters that are shown of a line
const LINE_HEIGHT = 20; // px, about
const BAR_HEIGHT = 34;

/** Whether two hunks look the same: both as `HunkToolbar` takes them, or undefined. */
export const isSameView = (one, other) => one && other && Object.keys(one).every((name) => one[name] === other[name]);

export class HunkToolbar extends WidgetType {
  /**
   * `shown`: {hunk, number, total, isOpen, isBusy, waits, isAsking, isCurrent, revision, answer, words}; `waits` is its decision that is pending
   * until the connection is back, or null; `revision` is the job that proposes it anew, or null; `answer` is why the last such
   * job proposed nothing, `words` its state. `actions`: {decide(hunk, action, mine), withdraw(hunk), fold(hunk), ask(hunk), split(hunk),
   * revise(hunk), cancelRevision(job), versions(hunk)}.
   */
  constructor(shown, actions) {
    super();
    Object.assign(this, { shown, actions });
  }

  eq(other) {
    return isSameView(this.shown, other.shown);
  }

  get lines() {
    const { hunk } = this.shown;
    return hunk.state === "rejected" ? linesOf(hunk).added : linesOf(hunk).removed;
  }

  get count() {
    if (this.shown.isOpen) return this.lines.length;
    return this.shown.hunk.state === "rejected" ? 0 : Math.min(this.lines.length, FOLDED_LINES);
  }

  get estimatedHeight() {
    return BAR_HEIGHT + this.count * LINE_HEIGHT;
  }

  ignoreEvent() {
    return true; // its buttons handle their events, and its text can be selected
  }

  toDOM() {
    const { hunk, number, total, isBusy, waits, isAsking, isCurrent, revision, answer, words } = this.shown;
    const kind = hunk.state === "rejected" ? "rejected" : hunk.origin === "user" ? "own" : "proposed";
    return h("div",
      {
        class: `inline-hunk hunk-${kind}${hunk.conflict ? " hunk-conflict" : ""}${waits ? " hunk-waits" : ""}`, role: "group", "data-hunk": hunk.hunk_id,
        "aria-label": `Hunk ${number} of ${total}, ${formatPlace(hunk)}`, "aria-current": isCurrent && "true",
        "aria-busy": isBusy && "true", contenteditable: "false",
      },
      h("div", { class: "hunk-bar" },
        h("span", { class: "hunk-name" }, `${number}/${total}`),
        h("span", { class: "hunk-state" }, waits ? describePendingDecision(waits) : isBusy ? "…" : words),
        revision && h("span", { class: "hunk-revision" }, icon("edit"), reveal(describeRevision(revision))),
        h("span", { class: "spacer" }),
        h("span", { class: "row-actions", "data-asks": hunk.conflict || isAsking || waits !== null }, ...this.#more(), this.#buttons())),
      answer && !revision && h("p", { class: "hunk-answer" }, icon("info"), h("span", {}, `No new version: ${plain(answer)}`)),
      this.#text());
  }

  /** What is done more rarely than to accept or reject. */
  #more() {
    const { hunk, isAsking, waits, revision } = this.shown;
    if (waits || isAsking) return [];
    return [
      hunk.earlier.length > 0 && this.#button("Earlier version", "versions"),
      hunk.state === "pending" && !revision && isSplittable(hunk) && this.#button("Split", "split"),
      revision ? this.#button("Cancel revision", "cancelRevision") : isRevisable(hunk) && this.#button("Revise", "revise", null, { title: "Say what should be different (C)" }),
    ];
  }

  #buttons() {
    const { hunk, isAsking, waits } = this.shown;
    if (waits) return this.#button("Undo", "takeBack");
    if (hunk.state === "rejected") return [this.#foldRejected(), this.#button("Restore", "reopen")];
    if (isAsking) {
      const drop = hunk.origin === "agent" && this.#button("Discard only my lines", "reject", "peel");
      return [drop, this.#button("Revert to file", "reject", "base"), this.#button("Cancel", "cancel")];
    }
    if (hunk.state === "accepted") return this.#button("Undo accept", "reopen");
    const yes = hunk.conflict ? keepLabel(hunk) : "Accept";
    const no = hunk.conflict ? KEEP_FILE : "Reject";
    return [
      (hunk.origin === "agent" || hunk.conflict) && this.#button(yes, "accept"),
      this.#button(hunk.origin === "user" && !hunk.conflict ? "Discard" : no, "reject"),
    ];
  }

  #button(words, action, mine = null, props = {}) {
    const { hunk, number, total, isBusy, revision } = this.shown;
    const run = {
      withdraw: () => this.actions.withdraw(hunk), cancel: () => this.actions.ask(null), revise: () => this.actions.revise(hunk),
      split: () => this.actions.split(hunk), cancelRevision: () => this.actions.cancelRevision(revision), versions: () => this.actions.versions(hunk),
    }[action];
    return h("button", {
      type: "button", class: `hunk-${action}`, disabled: isBusy,
      "aria-label": `${words} hunk ${number} of ${total}, ${formatPlace(hunk)}`,
      onclick: onceClicked(run ?? (() => this.actions.decide(hunk, action, mine))), ...props,
    }, words);
  }

  #foldRejected() {
    const { hunk, number, total, isOpen } = this.shown;
    const { added, removed } = linesOf(hunk);
    if (added.length === 0) return h("span", { class: "dim" }, `kept ${pluralize(removed.length, "line")}`);
    const words = isOpen ? "Hide" : `Show ${pluralize(added.length, "line")}`;
    return this.#fold(words, `${words} of rejected hunk ${number} of ${total}`);
  }

  #fold(words, label) {
    const { hunk, isOpen } = this.shown;
    return h("button", {
      type: "button", class: "quiet", "aria-label": label, "aria-expanded": String(isOpen), onclick: () => this.actions.fold(hunk),
    }, words);
  }

  #text() {
    const { hunk, number, total, isOpen } = this.shown;
    if (this.lines.length === 0) return null;
    const isRejected = hunk.state === "rejected";
    const show = (text) => reveal(truncate(text, MAX_LINE_LENGTH));
    const { removed, added } = linesOf(hunk);
    const changed = isRejected ? new Map() : changedIn(removed.map(show), added.map(show)).old;
    const line = (text, at) => h(isRejected ? "span" : "del", { class: "hunk-line" }, withMarks(show(text), changed.get(at)) || " ");
    const more = this.lines.length - FOLDED_LINES;
    const words = isOpen ? "Fewer lines" : `… ${more} more ${more === 1 ? "line" : "lines"}`;
    return [
      this.count > 0 && h("div", { class: "hunk-text" }, ...this.lines.slice(0, this.count).map(line)),
      more > 0 && !isRejected && this.#fold(words, `${words} removed by hunk ${number} of ${total}`),
    ];
  }
}
