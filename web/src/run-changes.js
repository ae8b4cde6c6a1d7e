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
    this.el = h("div", { class: "entry changes", role: "group", "aria-label": "Changes of this run" });
  }

  update({ change }) {
    if (change === this.change) return;
    this.change = change;
    const { files, is_undone: isUndone, kept_files: kept = [] } = change;
    const undone = kept.length ? `${formatNumber(files.length - kept.length)} undone, ${formatNumber(kept.length)} not` : "undone";
    const [totals, rows] = [totalsOf(files), rowsOf(change)];
    const waits = totals.pending > 0;
    setAttr(this.el, "data-waits", waits);
    const hadFocus = this.el.contains(document.activeElement);
    const button = (words, action, kind = null) => h("button", { type: "button", class: kind, onclick: () => this.actions[action](change) }, words);
    fill(this.el,
      h("div", { class: "changes-head" },
        icon(waits ? "edit" : isUndone ? "again" : "check"),
        h("strong", {}, waits ? `${pluralize(totals.pending, "hunk")} to review` : pluralize(files.length, "file")), " ",
        h("span", { class: "dim" }, isUndone ? undone : waits ? `in ${pluralize(files.filter((file) => file.pending > 0).length, "file")}` : decisions(totals)), " ",
        !isUndone && lines(totals),
        h("span", { class: "spacer" }),
        button("Review", "reviewRun", waits ? "primary" : "quiet"),
        isUndone ? button("Redo", "redoRun", "quiet") : button("Undo", "undoRun", "quiet")),
      h("ul", { class: "changes-files" }, ...rows.slice(0, MAX_LISTED).map((row) => this.#file(row, isUndone, kept.includes(row.file.file_path))),
        rows.length > MAX_LISTED && h("li", { class: "dim" }, `and ${pluralize(rows.length - MAX_LISTED, "more file")}`)));
    if (hadFocus) this.el.querySelector("button").focus();
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
