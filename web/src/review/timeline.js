// The checkpoints: each run with its time and changes, and its rollback.

import { fill, h, icon, setText, setAttr, showButton } from "../dom.js";
import { formatNumber, formatTime, pluralize, reveal, revealPath } from "../format.js";
import { totalsOf } from "./changes.js";
import { changedPaths, CheckpointPages } from "./checkpoint-pages.js";
import { AutoRefresh } from "./auto-refresh.js";
import { pagedList } from "./paged-list.js";
import { patchView } from "./patch-view.js";
import { openRollback } from "./rollback.js";

const INITIALLY_OPEN = 3; // files of a run whose changes are shown at first
const PAGE_SIZE = 100; // files of a run that are listed at first

/** The kind of run that a checkpoint belongs to. */
export const kindOf = ({ job_id: run, session_id: session }) =>
  run.startsWith("rollback_") ? "Undo" : session.startsWith("sess_") ? "Review job" : "Run";

/** Describe the open hunks of a run. */
function describeOpenHunks({ files }) {
  const { pending, accepted } = totalsOf(files);
  return pending > 0 ? `${formatNumber(pending)} to decide` : accepted > 0 && `${formatNumber(accepted)} accepted, unsaved`;
}

export class Timeline extends AutoRefresh {
  constructor({ api, review, announce, compare, openFile, origins }) {
    super();
    Object.assign(this, { api, review, announce, compare, openFile, origins });
    this.pages = new CheckpointPages({ api });
    this.changed = new Set(); // files whose reviews changed since the list was read
    this.rows = new Map(); // by checkpoint id: {key, el, aside}
    this.unfolded = new Set();
    this.list = h("ol", { class: "timeline-list" });
    this.note = h("p", { class: "dim note", role: "status" }, "Loading…");
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.#more() }, "Show earlier");
    this.el = h("section", { class: "panel timeline", "aria-label": "Checkpoints" },
      h("div", { class: "panel-head" }, h("h2", { tabindex: "-1" }, "Checkpoints")), this.note, this.list, this.more);
  }

  isAffected(state) {
    const before = this.pending;
    const isAnother = super.isAffected(state);
    if (isAnother) for (const path of changedPaths(before, state.pending)) this.changed.add(path);
    return isAnother;
  }

  focus() {
    (this.list.querySelector("button") ?? this.el.querySelector("h2")).focus();
  }

  #more() {
    this.wantsMore = true;
    this.read();
  }

  /** Refresh the list, or read one more page; requests during a read are served after it. */
  async read() {
    this.isStale = true;
    if (this.isReading) return;
    this.isReading = true;
    try {
      while (this.isStale) {
        const { wantsMore, changed } = this;
        Object.assign(this, { isStale: false, wantsMore: false, changed: new Set() });
        await (wantsMore ? this.pages.next() : this.pages.refresh(changed));
        this.#show(this.pages);
      }
    } catch (error) {
      this.note.hidden = false;
      setText(this.note, error.message);
    } finally {
      this.isReading = false;
    }
  }

  #show({ list: checkpoints, isMore }) {
    this.note.hidden = checkpoints.length > 0;
    setText(this.note, "No checkpoints yet. Each run that changes files creates one.");
    showButton(this.more, isMore, () => this.list.lastElementChild?.querySelector("button"));
    const old = this.rows;
    this.rows = new Map(checkpoints.map((each) => {
      const key = JSON.stringify([each.title, each.files.map((file) => file.file_path)]); // decisions are shown in its head
      const known = old.get(each.checkpoint_id);
      const row = known?.key === key ? known : { key, ...this.#row(each) };
      setText(row.aside, [kindOf(each), pluralize(each.files.length, "file"), describeOpenHunks(each)].filter(Boolean).join(" · "));
      return [each.checkpoint_id, row];
    }));
    const wanted = [...this.rows.values()].map(({ el }) => el);
    const isSame = wanted.length === this.list.children.length && wanted.every((el, index) => el === this.list.children[index]);
    if (isSame) return;
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    const id = focused?.closest("li").dataset.id;
    fill(this.list, ...wanted);
    if (focused?.isConnected) focused.focus();
    else if (focused) this.rows.get(id)?.el.querySelector("button").focus();
  }

  // -- a run ----------------------------------------------------------------------------------------

  #row(checkpoint) {
    const { checkpoint_id: id, created_at: created, title } = checkpoint;
    const aside = h("span", { class: "dim" });
    const body = h("div", { class: "timeline-body", id: `run-${id}`, hidden: true });
    const mark = h("span", { class: "timeline-mark" }, icon("right"));
    const unfold = (isOpen) => {
      if (isOpen) this.unfolded.add(id);
      else this.unfolded.delete(id);
      body.hidden = !isOpen;
      setAttr(button, "aria-expanded", isOpen);
      mark.replaceChildren(icon(isOpen ? "down" : "right"));
      if (isOpen && !body.firstChild) fill(body, ...this.#body(checkpoint));
    };
    const button = h("button", {
      type: "button", class: "quiet timeline-head", "aria-expanded": "false", "aria-controls": `run-${id}`,
      onclick: () => unfold(body.hidden),
    },
    mark, h("time", { datetime: created, title: new Date(created).toLocaleString() }, formatTime(Date.parse(created))),
    h("span", { class: "timeline-title" }, reveal(title) || "Untitled run"),
    aside);
    const el = h("li", { "data-id": id }, button, body);
    if (this.unfolded.has(id)) unfold(true);
    return { el, aside };
  }

  #body({ checkpoint_id: id, job_id: run, session_id: session, title, files }) {
    const back = () => openRollback({ api: this.api, review: this.review, checkpoint: id, announce: this.announce }).then(() => this.read());
    return [
      !run.startsWith("rollback_") && h("p", { class: "origins" }, "from ", this.origins.link({ run_id: run, session_id: session, title })),
      files.length > 0 && h("div", { class: "row" }, h("button", { type: "button", onclick: back }, icon("again"), "Roll back…")),
      files.length === 0 && h("p", { class: "dim" }, "No files changed."),
      ...pagedList(h("div", {}), files, { first: PAGE_SIZE, noun: "file", render: ({ file_path: path }, index) => this.#file(id, path, index < INITIALLY_OPEN) }),
    ];
  }

  /** A file of a run; its patch is requested when it is unfolded. */
  #file(id, path, isOpen) {
    const place = h("div", {});
    const load = async () => {
      if (!details.open || place.firstChild) return;
      fill(place, h("p", { class: "dim note" }, "Loading…"));
      try {
        fill(place, patchView((await this.api.diff3(id, path)).proposed_patch, { heads: false, first: 60 }));
      } catch (error) {
        fill(place, h("p", { class: "dim note" }, error.message));
      }
    };
    const details = h("details", { open: isOpen, ontoggle: load }, h("summary", { class: "mono" }, revealPath(path)),
      h("div", { class: "row timeline-actions" },
        h("button", { type: "button", "aria-label": `Compare ${revealPath(path)}`, onclick: () => this.compare(id, path) }, "Compare"),
        h("button", { type: "button", "aria-label": `Open ${revealPath(path)}`, onclick: () => this.openFile(path) }, "Open")),
      place);
    return details;
  }
}
