// What a run of a conversation has changed, at the end of its turn: "3 files +14 −3", with Review, Undo and Redo.

import { fill, h, icon, setAttr } from "./dom.js";
import { formatLineCounts, formatNumber, pluralize, revealPath } from "./format.js";
import { describeDecisions, rowsOf, totalsOf } from "./review/changes.js";

const MAX_LISTED = 6; // files of a run that are listed

/** "+14 −3", without zeros; false for no lines. */
const lines = ({ added, removed }) =>
  added + removed > 0 && h("span", { class: "line-counts" },
    added > 0 && h("span", { class: "added" }, formatLineCounts(added, 0)), added > 0 && removed > 0 && " ",
    removed > 0 && h("span", { class: "removed" }, formatLineCounts(0, removed)));

/** The decisions on a run's hunks that say more than that all of them are in the files. */
const decisions = (counts) => (counts.pending || counts.accepted || counts.rejected ? describeDecisions(counts) : "");

/** `actions`: reviewRun(change) shows its hunks or its diff, undoRun(change), redoRun(change), openFile(path). */
export class ChangesView {
  constructor(actions) {
    this.actions = actions;
    this.facts = h("div", { class: "changes-facts" });
    this.files = h("ul", { class: "changes-files" });
    // They stay: a button that is replaced while it is pressed gets no click.
    const button = (words, action) => h("button", { type: "button", class: "quiet", onclick: () => actions[action](this.change) }, words);
    this.buttons = { review: button("Review", "reviewRun"), undo: button("Undo", "undoRun"), redo: button("Redo", "redoRun") };
    this.el = h("div", { class: "entry changes", role: "group", "aria-label": "Changes of this run" },
      h("div", { class: "changes-head" }, this.facts, h("span", { class: "spacer" }), ...Object.values(this.buttons)), this.files);
  }

  update({ change }) {
    if (change === this.change) return;
    this.change = change;
    const { files, is_undone: isUndone, kept_files: kept = [] } = change;
    const undone = kept.length ? `${formatNumber(files.length - kept.length)} undone, ${formatNumber(kept.length)} not` : "undone";
    const [totals, rows] = [totalsOf(files), rowsOf(change)];
    const waits = totals.pending > 0;
    const listed = rows.slice(0, MAX_LISTED);
    const more = files.length - listed.reduce((all, { from }) => all + (from ? 2 : 1), 0); // a move is two files
    setAttr(this.el, "data-waits", waits);
    const hadFocus = this.el.contains(document.activeElement);
    fill(this.facts,
      icon(waits ? "edit" : isUndone ? "again" : "check"),
      h("strong", {}, waits ? `${pluralize(totals.pending, "hunk")} to review` : pluralize(files.length, "file")), " ",
      h("span", { class: "dim" }, isUndone ? undone : waits ? `in ${pluralize(files.filter((file) => file.pending > 0).length, "file")}` : decisions(totals)), " ",
      !isUndone && lines(totals));
    fill(this.files, ...listed.map((row) => this.#file(row, isUndone, kept.includes(row.file.file_path))),
      more > 0 && h("li", { class: "dim" }, `and ${pluralize(more, "more file")}`));
    const { review, undo, redo } = this.buttons;
    setAttr(review, "class", waits ? "primary" : "quiet");
    setAttr(undo, "hidden", isUndone);
    setAttr(redo, "hidden", !isUndone);
    if (hadFocus && (document.activeElement.hidden || !this.el.contains(document.activeElement))) review.focus();
  }

  #file({ file, from }, isUndone, isKept) {
    const name = [from, file].filter(Boolean).map((each) => revealPath(each.file_path)).join(" → ");
    const current = from && isUndone && !isKept ? from : file;
    const facts = isKept ? "not undone: changed since" : isUndone ? "" : [from && "moved", decisions(file)].filter(Boolean).join(" · ");
    return h("li", {},
      h("button", { type: "button", class: "link mono", title: name, onclick: () => this.actions.openFile(current.file_path) }, name), " ",
      h("span", { class: "dim" }, facts), " ", !from && (!isUndone || isKept) && lines(file));
  }
}
