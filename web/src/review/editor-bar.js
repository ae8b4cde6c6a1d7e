// The bar above a file: its counts, its problems, and the buttons for the whole file.

import { fill, h, icon, iconButton, setText, setAttr } from "../dom.js";
import { plain, pluralize, revealPath } from "../format.js";
import { KEEP_FILE, KEEP_OWN, keepLabel } from "./hunk-format.js";
import { ProgressBar } from "./progress-bar.js";

const STORED_MESSAGE = "Your edits and decisions are saved in this browser and sent when the connection is back.";
const NOT_STORED_MESSAGE = "Your edits and decisions are sent when the connection is back. This browser cannot save them: keep this page open.";

/** "3 hunks to decide · 1 accepted, unsaved". */
function summarize({ counts, isTyped, isAbsent, hasHunks, about, isUp, refusal }) {
  const parts = [
    about || (isAbsent && (hasHunks ? "Deleted in this review" : "No such file")),
    counts.undecided > 0 && `${pluralize(counts.undecided, "hunk")} to decide`,
    counts.conflicts > 0 && pluralize(counts.conflicts, "conflict"),
    counts.accepted > 0 && `${counts.accepted} accepted, unsaved`,
    counts.mine > 0 && `${counts.mine} of yours, unsaved`,
    counts.rejected > 0 && `${counts.rejected} rejected`,
    isTyped && (isUp && !refusal ? "sending…" : "unsent edits"),
  ].filter(Boolean);
  return parts.join(" · ") || "No changes";
}

export class EditorBar {
  /** `actions`: {next, previous, acceptAll, rejectAll, save, rerun, keepProposal, keepFile, resend}. */
  constructor({ path, actions }) {
    this.path = path;
    this.summary = h("p", { class: "file-summary" });
    const button = (words, run, props = {}) => h("button", { type: "button", onclick: run, ...props }, words);
    this.previous = iconButton("down", "Previous undecided hunk (K)", actions.previous, { class: "icon-button file-previous" });
    this.next = iconButton("down", "Next undecided hunk (J)", actions.next);
    this.acceptAll = button("Accept all", actions.acceptAll, { "aria-label": "Accept all hunks of this file" });
    this.rejectAll = button("Reject all", actions.rejectAll, { "aria-label": "Reject all hunks of this file" });
    this.save = button("", actions.save, { class: "primary" });
    this.progress = new ProgressBar();
    this.words = h("p", {});
    this.rerun = button("Re-run", actions.rerun);
    this.keep = button(keepLabel(), actions.keepProposal, { class: "file-keep" });
    this.take = button(KEEP_FILE, actions.keepFile, { class: "file-keep" });
    this.resend = button("Try again", actions.resend);
    this.trouble = h("div", { class: "file-trouble", role: "status" }, icon("warn"), this.words, this.rerun, this.keep, this.take, this.resend);
    const cut = path.lastIndexOf("/") + 1;
    const place = h("p", { class: "file-place mono", title: revealPath(path) },
      h("span", { class: "file-folder" }, revealPath(path.slice(0, cut))), h("span", {}, revealPath(path.slice(cut))));
    this.el = h("div", { class: "file-bar" },
      h("div", { class: "file-row", role: "group", "aria-label": `Review of ${revealPath(path)}` },
        h("div", { class: "file-about" }, place, this.summary), this.previous, this.next, this.acceptAll, this.rejectAll, this.save),
      this.progress.el, this.trouble);
  }

  /**
   * `state`: {counts, isTyped, isAbsent, hasHunks, about, isUp, isKept, refusal, problem, hasJob, isGone, progress, otherFiles};
   * `about` describes the change to the whole file; `otherFiles` are left to save, once all is reviewed.
   */
  update(state) {
    const { counts, otherFiles } = state;
    const hasOwn = counts.toSave > 0 || state.isTyped;
    const summary = summarize(state);
    setText(this.summary, summary);
    setAttr(this.summary, "title", summary);
    this.progress.update(state.progress);
    setAttr(this.el, "data-conflict", state.isUp && counts.conflicts > 0);
    setAttr(this.acceptAll, "disabled", counts.undecided === counts.openConflicts);
    setAttr(this.rejectAll, "disabled", counts.undecided === 0);
    const { decided, total } = state.progress;
    this.previous.disabled = this.next.disabled = !state.hasHunks && decided === total;
    setText(this.save, otherFiles > 0 ? `All reviewed: Save ${pluralize(otherFiles + (hasOwn ? 1 : 0), "file")}` : "Save");
    setAttr(this.save, "title", otherFiles > 0 ? "Save all reviewed files" : "Save (Ctrl+S)");
    setAttr(this.save, "disabled", !hasOwn && otherFiles === 0);
    this.#trouble(state);
  }

  #trouble(state) {
    const { isUp, refusal, counts, hasJob } = state;
    const words = this.#words(state);
    this.trouble.hidden = !words;
    if (words && this.words.textContent !== words) fill(this.words, words);
    const isConflict = isUp && counts.conflicts > 0;
    this.keep.hidden = !isConflict || counts.openConflicts === 0;
    this.take.hidden = !isConflict;
    setText(this.keep, counts.isOwnConflict ? KEEP_OWN : keepLabel());
    this.rerun.hidden = !isConflict || !hasJob;
    this.resend.hidden = !isUp || !refusal;
  }

  #words({ isUp, isKept, refusal, problem, counts, isGone }) {
    if (!isUp) return `Not connected to Newel. ${isKept ? STORED_MESSAGE : NOT_STORED_MESSAGE}`;
    if (refusal) return `Your edits were rejected: ${plain(refusal.message)}`;
    if (counts.conflicts > 0 && counts.openConflicts === 0) {
      return problem ? plain(problem) : isGone ? "Save creates the file again." : "Save overwrites the lines that changed on disk.";
    }
    if (counts.conflicts > 0) return isGone ? "The file no longer exists on disk." : "Conflict: the same lines changed on disk.";
    return problem ? plain(problem) : "";
  }
}
