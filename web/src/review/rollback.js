// Rollback of a run: preview, confirm, save.

import { dialogHead, openDialog } from "../dialog.js";
import { fill, h, setText } from "../dom.js";
import { pluralize, reveal, revealPath } from "../format.js";
import { pagedList } from "./paged-list.js";
import { patchView } from "./patch-view.js";

const STATES = { applied: "saved", accepted: "accepted, unsaved", pending: "not decided", rejected: "rejected" };
const INITIALLY_OPEN = 3; // files whose changes are unfolded at first
const PAGE_SIZE = 50; // hunks that are listed at first
const MODE_DESCRIPTIONS = {
  hard_all: "Restores the files of this run to their state before it. Later changes to these files are lost, including your own. "
    + "A rollback is a checkpoint too, so you can undo it.",
  scoped_selected: "Reverts only the selected hunks and keeps later changes.",
};

/** Open the dialog for a checkpoint; `hunks` are selected initially. */
export const openRollback = ({ api, review, checkpoint, hunks = null, announce = () => {} }) =>
  openDialog({
    label: "Roll back", kind: "rollback",
    build: (close) => new Rollback({ api, review, id: checkpoint, hunks, announce, close }).begin(),
  });

class Rollback {
  constructor({ api, review, id, hunks, announce, close }) {
    Object.assign(this, { api, review, id, announce, close });
    this.mode = hunks ? "scoped_selected" : "hard_all";
    this.chosen = new Set(hunks ?? []);
    this.asked = 0;
    this.plan = null;
    this.note = h("p", { class: "words", role: "status" });
    this.hunks = h("div", { class: "rollback-hunks" });
    this.shown = h("div", { class: "rollback-plan" });
    this.confirmButton = h("button", { type: "button", class: "danger", disabled: true, onclick: () => this.#execute() }, "Roll back");
    this.buttons = h("div", { class: "row" },
      h("button", { type: "button", class: "primary", autofocus: true, onclick: () => this.close() }, "Cancel"), this.confirmButton);
  }

  begin() {
    this.title = h("p", { class: "dim words" });
    const way = (mode, label) => h("label", { class: "row" },
      h("input", { type: "radio", name: "rollback-mode", value: mode, checked: this.mode === mode, onchange: () => this.#choose(mode) }), label);
    this.ways = h("fieldset", { class: "rollback-ways" }, h("legend", { class: "sr-only" }, "What to roll back"),
      way("hard_all", "Everything since this run"), way("scoped_selected", "Selected hunks only"));
    this.words = h("p", {}, MODE_DESCRIPTIONS[this.mode]);
    this.body = h("div", { class: "rollback-body", tabindex: "0", role: "group", "aria-label": "Preview" }, this.hunks, this.note, this.shown);
    this.#load();
    return [dialogHead("Roll back", this.close), this.title, this.ways, this.words, this.body, this.buttons];
  }

  async #load() {
    try {
      this.checkpoint = await this.api.checkpoint(this.id);
      setText(this.title, reveal(this.checkpoint.title) || "Untitled run");
      this.#choices();
    } catch (error) {
      setText(this.note, error.message);
      return;
    }
    this.#preview();
  }

  #choose(mode) {
    this.mode = mode;
    setText(this.words, MODE_DESCRIPTIONS[mode]);
    this.#choices();
    this.#preview();
  }

  // -- which hunks ----------------------------------------------------------------------------------

  #choices() {
    if (this.mode !== "scoped_selected" || !this.checkpoint) return fill(this.hunks); // drawn again once it is loaded
    const all = this.checkpoint.files.flatMap((file) => file.hunks.map((hunk) => ({ ...hunk, path: file.file_path })));
    if (all.length === 0) return fill(this.hunks, h("p", { class: "dim" }, "Nothing of this run is left to roll back."));
    fill(this.hunks, ...pagedList(h("div", {}), all, { first: PAGE_SIZE, noun: "hunk", render: (hunk) => this.#hunk(hunk) }));
  }

  #hunk({ hunk_id: id, path, state, reverse_patch: patch }) {
    const box = h("input", {
      type: "checkbox", checked: this.chosen.has(id),
      onchange: () => {
        if (box.checked) this.chosen.add(id);
        else this.chosen.delete(id);
        this.#preview();
      },
    });
    return h("div", { class: "rollback-hunk" },
      h("label", { class: "row" }, box, h("span", { class: "mono" }, revealPath(path)), h("span", { class: "dim" }, STATES[state])),
      patchView(patch, { heads: false, first: 12 }));
  }

  // -- what it would do -----------------------------------------------------------------------------

  get #request() {
    return { mode: this.mode, hunks: this.mode === "scoped_selected" ? [...this.chosen] : [] };
  }

  /** Load the preview of the current choice. */
  async #preview(words = "") {
    const number = (this.asked += 1);
    this.plan = null;
    this.confirmButton.disabled = true;
    fill(this.shown);
    if (this.mode === "scoped_selected" && this.chosen.size === 0) return setText(this.note, "Select the hunks to roll back.");
    setText(this.note, words || "Loading preview…");
    try {
      const plan = await this.api.rollback(this.id, { ...this.#request, dryRun: true });
      if (number === this.asked) this.#show(plan, words);
    } catch (error) {
      if (number === this.asked) setText(this.note, error.message);
    }
  }

  #show(plan, words) {
    this.plan = plan;
    this.confirmButton.disabled = plan.files.length === 0;
    const would = plan.files.length ? `${pluralize(plan.files.length, "file")} would change.` : "Nothing would change.";
    setText(this.note, [words, would].filter(Boolean).join(" "));
    fill(this.shown, ...conflictsView(plan.conflicts), ...filesView(plan.files));
  }

  // -- doing it -------------------------------------------------------------------------------------

  async #execute() {
    const seen = this.plan;
    this.confirmButton.disabled = true;
    try {
      const now = await this.api.rollback(this.id, { ...this.#request, dryRun: true });
      if (content(now) !== content(seen)) {
        this.confirmButton.disabled = now.files.length === 0;
        this.#show(now, "The files have changed. Check the preview again before you roll back.");
        return;
      }
      this.#done(await this.api.rollback(this.id, this.#request));
    } catch (error) {
      if (error.code === "connection") await this.#preview("The connection was lost during the rollback. This is the current state.");
      else await this.#preview(error.message);
    }
  }

  #done(done) {
    for (const view of done.buffers) this.review.take(view.file_path, view);
    this.review.touch(done.files.map((file) => file.file_path));
    const words = `${pluralize(done.files.length, "file")} rolled back, not saved yet.`;
    this.announce(words);
    this.ways.disabled = true;
    this.words.hidden = true;
    fill(this.hunks);
    setText(this.note, words);
    const save = h("button", { type: "button", class: "primary", onclick: () => this.#save(done, save) }, "Save");
    fill(this.buttons, save, h("button", { type: "button", onclick: () => this.close(done) }, "Later"));
    save.focus();
  }

  async #save(done, button) {
    button.disabled = true;
    try {
      await this.api.save(done.buffers.map(({ file_path: path, rev }) => ({ path, rev })));
      this.review?.touch(done.files.map((file) => file.file_path));
      this.announce(`${pluralize(done.files.length, "file")} saved.`);
      this.close(done);
    } catch (error) {
      this.review?.touch();
      setText(this.note, `Not saved: ${error.message}`);
      button.disabled = false;
      button.focus();
    }
  }
}

/** The content of a plan, for comparison. */
const content = ({ files, conflicts }) => JSON.stringify([files, conflicts]);

/** Why a place is not undone, without the ids of hunks, which no other part of the page shows. */
const reasonOf = (reason) => reveal(reason).replace(/\bhunk h_[\w.-]+(, h_[\w.-]+)*/g, (_, more) => (more ? "other changes" : "a change"));

/** `words` follow the number of places: "would not change". */
export const conflictsView = (conflicts, words = "would not change") =>
  conflicts.length === 0 ? [] : [
    h("p", { class: "warn-text" }, `${pluralize(conflicts.length, "place")} ${words}:`),
    h("ul", { class: "rollback-conflicts" }, ...conflicts.map(({ file_path: path, reason }) =>
      h("li", {}, h("span", { class: "mono" }, revealPath(path)), ` ${reasonOf(reason)}`))),
  ];

export const filesView = (files) =>
  files.map(({ file_path: path, patch }, index) => {
    const place = h("div", {});
    const isOpen = index < INITIALLY_OPEN;
    const draw = () => place.firstChild ?? fill(place, patchView(patch, { heads: false }));
    if (isOpen) draw();
    return h("details", { open: isOpen, ontoggle: draw }, h("summary", { class: "mono" }, revealPath(path)), place);
  });
