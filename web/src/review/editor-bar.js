// The bar above a file: what is to be decided and saved, what stands in the way, and the buttons for all of the file.

import { fill, h, icon, iconButton, say, set } from "../dom.js";
import { plain, plural, revealPath } from "../format.js";
import { KEEP_FILE, KEEP_OWN, keepWords } from "./hunk-format.js";

const KEPT = "What you type and decide waits here, over a reload too, and is sent when it is back.";
const UNKEPT = "What you type and decide waits here, but your browser does not keep it: leave this page open.";

/** "3 hunks to decide · 1 accepted, not saved"; what a file without hunks is, too. */
export function summaryOf({ tally, isTyped, isAbsent, hasHunks, about, isUp, typedError }) {
  const parts = [
    about || (isAbsent && (hasHunks ? "The file is removed here" : "There is no such file")),
    tally.undecided > 0 && `${plural(tally.undecided, "hunk")} to decide`,
    tally.conflicts > 0 && plural(tally.conflicts, "conflict"),
    tally.accepted > 0 && `${tally.accepted} accepted, not saved`,
    tally.mine > 0 && `${tally.mine} of yours, not saved`,
    tally.rejected > 0 && `${tally.rejected} rejected`,
    isTyped && (isUp && !typedError ? "sending…" : "typed, not sent"),
  ].filter(Boolean);
  return parts.join(" · ") || "Saved, nothing to decide";
}

export class EditorBar {
  /** `does`: {next, previous, acceptAll, rejectAll, save, rerun, keepProposal, keepFile, resend}. */
  constructor({ path, does }) {
    this.path = path;
    this.summary = h("p", { class: "file-summary" });
    const button = (words, run, props = {}) => h("button", { type: "button", onclick: run, ...props }, words);
    this.previous = iconButton("down", "Previous hunk (K)", does.previous, { class: "icon-button file-previous" });
    this.next = iconButton("down", "Next hunk (J)", does.next);
    this.acceptAll = button("Accept all", does.acceptAll, { "aria-label": "Accept all hunks of this file" });
    this.rejectAll = button("Reject all", does.rejectAll, { "aria-label": "Reject all hunks of this file" });
    this.save = button("Save", does.save, { class: "primary", title: "Save (Ctrl+S)" });
    this.words = h("p", {});
    this.rerun = button("Re-run", does.rerun);
    this.keep = button(keepWords(), does.keepProposal);
    this.take = button(KEEP_FILE, does.keepFile);
    this.resend = button("Try again", does.resend);
    this.trouble = h("div", { class: "file-trouble", role: "status" }, icon("warn"), this.words, this.rerun, this.keep, this.take, this.resend);
    const cut = path.lastIndexOf("/") + 1;
    const place = h("p", { class: "file-place mono", title: revealPath(path) },
      h("span", { class: "file-folder" }, revealPath(path.slice(0, cut))), h("span", {}, revealPath(path.slice(cut))));
    this.el = h("div", { class: "file-bar" },
      h("div", { class: "file-row", role: "group", "aria-label": `Review of ${revealPath(path)}` },
        h("div", { class: "file-about" }, place, this.summary), h("span", { class: "spacer" }), this.previous, this.next, this.acceptAll, this.rejectAll, this.save),
      this.trouble);
  }

  /**
   * `state`: {tally, isTyped, isAbsent, hasHunks, about, isUp, isKept, typedError, problem, hasJob, isGone}; `about` is what
   * becomes of the file as a whole.
   */
  update(state) {
    const { tally, isUp } = state;
    say(this.summary, summaryOf(state));
    set(this.acceptAll, "disabled", tally.undecided === tally.conflicts);
    set(this.rejectAll, "disabled", tally.undecided === 0);
    set(this.previous, "disabled", !state.hasHunks);
    set(this.next, "disabled", !state.hasHunks);
    set(this.save, "disabled", tally.toSave === 0 && !state.isTyped);
    this.#trouble(state);
  }

  #trouble(state) {
    const { isUp, typedError, tally, hasJob } = state;
    const words = this.#words(state);
    this.trouble.hidden = !words;
    if (words && this.words.textContent !== words) fill(this.words, words);
    const isConflict = isUp && tally.conflicts > 0;
    this.keep.hidden = this.take.hidden = !isConflict;
    say(this.keep, tally.isOwnConflict ? KEEP_OWN : keepWords());
    this.rerun.hidden = !isConflict || !hasJob;
    this.resend.hidden = !isUp || !typedError;
  }

  #words({ isUp, isKept, typedError, problem, tally, isGone }) {
    if (!isUp) return `There is no connection to Newel. ${isKept ? KEPT : UNKEPT}`;
    if (typedError) return `What you typed was not taken: ${plain(typedError.message)}`;
    if (tally.conflicts > 0 && isGone) return `${revealPath(this.path)} is not on the disk any more.`;
    if (tally.conflicts > 0) {
      return `${revealPath(this.path)} changed on disk where ${tally.conflicts === 1 ? "a hunk stands" : `${tally.conflicts} hunks stand`}.`;
    }
    return problem ? plain(problem) : "";
  }
}
