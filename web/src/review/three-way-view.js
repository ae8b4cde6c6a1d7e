// A file in three versions: before a run, as proposed by the run, and now.

import { fill, h, setText, setAttr } from "../dom.js";
import { formatNumber, pluralize, revealPath } from "../format.js";
import { AutoRefresh } from "./auto-refresh.js";
import { paired, parsePatch, sizeOf } from "./patch.js";
import { pagedList } from "./paged-list.js";
import { patchView, printable } from "./patch-view.js";

const SIDE_BY_SIDE = matchMedia("(min-width: 900.02px)"); // below that width there is one column
const FIRST_ROWS = 500; // rows that are shown at first
const PAGE_SIZE = 2_000;
const COMPARISONS = {
  proposed: { label: "Before ↔ proposed", text: "agent_proposed", patch: "proposed_patch", head: "Proposed by the run" },
  current: { label: "Before ↔ now", text: "current_file", patch: "current_patch", head: "Now, including the review" },
};

export class ThreeWayView extends AutoRefresh {
  constructor({ api, review, checkpoint, path, openFile }) {
    super();
    Object.assign(this, { api, review, checkpoint, path });
    this.way = "proposed";
    this.note = h("p", { class: "dim note", role: "status" }, "Loading…");
    this.body = h("div", { class: "compare-body", tabindex: "0", role: "region", "aria-label": "Comparison" });
    this.ways = Object.entries(COMPARISONS).map(([way, { label }]) =>
      h("button", { type: "button", "data-way": way, onclick: () => this.#choose(way) }, label));
    this.el = h("section", { class: "panel compare", "aria-label": `Compare ${revealPath(path)}` },
      h("div", { class: "compare-head" }, h("h2", { class: "mono", tabindex: "-1" }, revealPath(path)), h("span", { class: "spacer" }),
        h("div", { class: "row", role: "group", "aria-label": "What to compare" }, ...this.ways),
        h("button", { type: "button", onclick: () => openFile(path) }, "Open")),
      this.note, this.body);
    this.onWidth = () => this.#draw();
  }

  load() {
    SIDE_BY_SIDE.addEventListener("change", this.onWidth);
    super.load();
  }

  isAffected({ pending }) {
    const file = pending?.find((each) => each.file_path === this.path);
    const now = file ? `${file.rev} ${file.base_file_hash}` : "";
    const isAnother = now !== this.now;
    this.now = now;
    return isAnother;
  }

  focus() {
    this.ways.find((button) => button.dataset.way === this.way).focus();
  }

  destroy() {
    SIDE_BY_SIDE.removeEventListener("change", this.onWidth);
    super.destroy();
  }

  async read() {
    const asked = (this.asked = (this.asked ?? 0) + 1);
    try {
      const view = await this.api.diff3(this.checkpoint, this.path);
      if (asked !== this.asked) return;
      const isSame = JSON.stringify(view) === JSON.stringify(this.view);
      this.view = view;
      if (!isSame) this.#draw();
    } catch (error) {
      if (asked === this.asked && !this.view) setText(this.note, error.message);
    }
  }

  #choose(way) {
    this.way = way;
    this.#draw();
  }

  #draw() {
    for (const button of this.ways) setAttr(button, "aria-pressed", button.dataset.way === this.way);
    if (!this.view) return;
    const { text, patch, head } = COMPARISONS[this.way];
    const files = parsePatch(this.view[patch]);
    const [before, after] = [this.view.checkpoint_base, this.view[text]];
    setText(this.note, describeComparison(before, after, files));
    if (files.length === 0 || files[0].hunks.length === 0) return fill(this.body);
    if (!SIDE_BY_SIDE.matches) return fill(this.body, patchView(this.view[patch], { heads: false }));
    fill(this.body, h("div", { class: "compare-columns" },
      h("p", { class: "dim" }, "Before the run"), h("p", { class: "dim" }, head)), rowsView(files[0].hunks, before));
  }
}

/** Summarize a comparison. */
function describeComparison(before, after, files) {
  if (files.length === 0) return "No differences.";
  if (files.some((file) => file.isBinary)) return "Binary files differ.";
  const { added, removed } = sizeOf(files);
  const count = `${pluralize(added, "line")} added, ${formatNumber(removed)} removed.`;
  if (before === null) return `The file did not exist before the run. ${count}`;
  if (after === null) return `The file does not exist on the other side. ${count}`;
  return added + removed > 0 ? count : "Only the file mode differs.";
}

/** Rows in two columns; unchanged lines between the changes are folded. */
function rowsView(hunks, before) {
  const lines = before?.split("\n") ?? [];
  if (lines.at(-1) === "") lines.pop();
  const items = [];
  let [old, fresh] = [1, 1]; // the next line on either side
  for (const hunk of hunks) {
    const first = hunk.lines.find((line) => line.old !== null)?.old ?? old;
    if (first > old) items.push({ from: old, fresh, count: first - old });
    items.push(...paired(hunk.lines));
    for (const line of hunk.lines) {
      if (line.old !== null) old = line.old + 1;
      if (line.new !== null) fresh = line.new + 1;
    }
  }
  if (lines.length >= old) items.push({ from: old, fresh, count: lines.length - old + 1 });
  return pagedList(h("div", { class: "compare-rows" }), items, {
    first: FIRST_ROWS, step: PAGE_SIZE, noun: "row", render: (item) => (item.count ? foldView(item, lines) : rowView(item)),
  });
}

function foldView({ from, fresh, count }, lines) {
  const unfold = () => {
    const next = Math.min(count, PAGE_SIZE);
    const rows = lines.slice(from - 1, from - 1 + next).map((text, index) => {
      const line = { kind: "same", text, old: from + index, new: fresh + index };
      return rowView({ old: line, new: line });
    });
    const rest = count > next ? [foldView({ from: from + next, fresh: fresh + next, count: count - next }, lines)] : [];
    fold.replaceWith(...rows, ...rest);
  };
  const fold = h("button", { type: "button", class: "quiet compare-fold", onclick: unfold }, `⋯ ${pluralize(count, "unchanged line")}`);
  return fold;
}

function rowView({ old, new: fresh }) {
  return h("div", { class: "compare-row" }, cellView(old, old?.old, "del", "−"), cellView(fresh, fresh?.new, "add", "+"));
}

function cellView(line, number, change, sign) {
  if (!line) return h("div", { class: "compare-cell none" });
  const isChange = line.kind === change;
  return h("div", { class: `compare-cell ${line.kind}` },
    h("span", { class: "number", "data-number": number }), h("span", { class: "sign" }, isChange ? sign : " "),
    h(isChange ? { del: "del", add: "ins" }[change] : "span", { class: "text" }, printable(line.text)));
}
