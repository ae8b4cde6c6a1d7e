// A file that is decided on as a whole, because it is binary or too large: its sizes, its pictures, its buttons.

import { fill, h, icon, onceClicked, setText } from "../dom.js";
import { revealPath, formatBytes } from "../format.js";
import { KEEP_FILE, keepLabel, describePendingDecision } from "./hunk-format.js";
import { choiceOf, isOpen } from "./pending-decisions.js";

const MAX_PICTURE_BYTES = 8 << 20; // bytes of a picture that is fetched
const PICTURE_NAME = /\.(?:png|jpe?g|gif|webp)$/i;
const KIND_MESSAGES = { binary: "This file is binary or not UTF-8, so it cannot be shown line by line.", too_large: "This file is larger than 2 MiB, so it cannot be shown line by line." };
const DONE_LABELS = { accept: "accepted", reject: "rejected", reopen: "pending" };

const startsWith = (bytes, at, text) => [...text].every((letter, index) => bytes[at + index] === letter.charCodeAt(0));

/** The MIME type of a picture, by its first bytes; null for anything that is not a harmless picture. */
export function pictureType(bytes) {
  if (startsWith(bytes, 0, "\x89PNG\r\n\x1a\n")) return "image/png";
  if (startsWith(bytes, 0, "\xff\xd8\xff")) return "image/jpeg";
  if (startsWith(bytes, 0, "GIF8")) return "image/gif";
  return startsWith(bytes, 0, "RIFF") && startsWith(bytes, 8, "WEBP") ? "image/webp" : null;
}

/** A file's sizes: "A new file · 2.1 kB", "2.1 kB → 3.0 kB". */
export function formatSizes({ size: now, base_size: before, hunks }) {
  if (hunks.every((hunk) => hunk.state === "rejected")) return formatBytes(now);
  return before === null ? `A new file · ${formatBytes(now)}` : `${formatBytes(before)} → ${formatBytes(now)}`;
}

export class BinaryFileView {
  constructor({ path, api, review, waiting, announce }) {
    Object.assign(this, { path, api, review, waiting, announce });
    this.words = h("p", { class: "dim" });
    this.sizes = h("p", {});
    this.state = h("p", { class: "whole-state", role: "status" });
    this.buttons = h("div", { class: "row" });
    this.pictures = h("div", { class: "whole-pictures" });
    this.problem = h("p", { class: "problem bad-text", role: "alert" });
    this.el = h("div", { class: "whole-file" },
      h("h2", { class: "mono", tabindex: "-1" }, revealPath(path)), this.words, this.sizes, this.state, this.buttons, this.problem, this.pictures);
    this.urls = [];
  }

  /** `view` is a FileState. */
  update(view, isUp) {
    this.view = view;
    setText(this.words, KIND_MESSAGES[view.kind]);
    setText(this.sizes, formatSizes(view));
    this.#buttons(isUp);
    const shown = `${view.base_file_hash} ${view.rev}`;
    if (shown === this.shown) return;
    this.shown = shown;
    this.#pictures();
  }

  /** Whether an accepted change is not saved. */
  get isDirty() {
    return this.#in("accepted").length > 0;
  }

  focus() {
    (this.buttons.querySelector("button") ?? this.el.querySelector("h2")).focus();
  }

  destroy() {
    this.isOver = true;
    this.#drop();
  }

  // -- deciding -------------------------------------------------------------------------------------

  #in = (state) => this.view.hunks.filter((hunk) => hunk.state === state);

  #buttons(isUp) {
    const [pending, accepted, rejected] = ["pending", "accepted", "rejected"].map((state) => this.#in(state).length > 0);
    const isConflict = this.view.hunks.some((hunk) => hunk.conflict && hunk.state === "pending");
    const decision = this.review.get().waiting[this.path]?.values().next().value;
    const waits = !isUp && isOpen(decision) ? decision.choice : null;
    const words = waits ? describePendingDecision(waits) : isConflict ? "Conflict: the file changed on disk." : pending ? "Undecided" : accepted ? "Accepted, unsaved" : rejected ? "Rejected" : "";
    setText(this.state, words);
    const key = JSON.stringify([pending, accepted, rejected, isConflict, isUp, waits, this.isBusy]);
    if (key === this.drawn) return;
    this.drawn = key;
    const hadFocus = this.buttons.contains(document.activeElement);
    const button = (text, run, props = {}) => h("button", { type: "button", disabled: this.isBusy, onclick: onceClicked(run), ...props }, text);
    if (waits) fill(this.buttons, button("Undo", () => this.#withdraw()));
    else fill(this.buttons,
      pending && button(isConflict ? keepLabel(this.view.hunks.find((hunk) => hunk.conflict)) : "Accept", () => this.decide("accept"), { class: "hunk-accept" }),
      pending && button(isConflict ? KEEP_FILE : "Reject", () => this.decide("reject")),
      accepted && button("Save", () => this.save(), { class: "primary", disabled: !isUp || this.isBusy, title: "Save (Ctrl+S)" }),
      accepted && button("Undo accept", () => this.decide("reopen")),
      rejected && button("Restore", () => this.decide("reopen")));
    if (hadFocus) this.focus();
  }

  /** Decide on the file: "accept", "reject" or "reopen". */
  async decide(action) {
    const from = action === "reopen" ? ["accepted", "rejected"] : ["pending"];
    const hunks = this.view.hunks.filter((hunk) => from.includes(hunk.state));
    fill(this.problem);
    const { isDone, problem } = await this.waiting.choose(this.path, hunks, choiceOf(action));
    if (problem) this.#refused(problem);
    if (isDone && hunks.length > 0) this.announce(`${revealPath(this.path)} is ${DONE_LABELS[action] === "pending" ? "to be decided again" : DONE_LABELS[action]}.`);
  }

  #withdraw() {
    for (const hunk of this.view.hunks) this.waiting.withdraw(this.path, hunk.hunk_id);
  }

  #refused(words) {
    fill(this.problem, icon("warn"), words);
    this.review.touch([this.path]);
  }

  async save() {
    if (this.#in("accepted").length === 0) return;
    await this.#do(async () => {
      await this.waiting.settled(this.path);
      await this.api.save([{ path: this.path, rev: this.view.rev }]);
      await this.review.take(this.path, this.api.file(this.path));
      this.announce(`${revealPath(this.path)} is saved.`);
    });
  }

  async #do(what) {
    if (this.isBusy) return;
    this.isBusy = true;
    fill(this.problem);
    this.#buttons(true);
    try {
      await what();
    } catch (error) {
      this.#refused(error.message);
    } finally {
      this.isBusy = false;
      if (!this.isOver) this.#buttons(this.review.get().isUp);
    }
  }

  // -- pictures -------------------------------------------------------------------------------------

  async #pictures() {
    const { view, shown } = this;
    const proposes = view.hunks.some((hunk) => hunk.state !== "rejected");
    const sides = proposes ? [["base", "Before", view.base_size], ["buffer", "After", view.size]] : [["buffer", "", view.size]];
    const isPicture = PICTURE_NAME.test(this.path) && (view.kind === "binary" || view.hunks.length > 0); // large files are only stored for a review
    const wanted = isPicture ? sides.filter(([, , bytes]) => bytes !== null && bytes <= MAX_PICTURE_BYTES) : [];
    const figures = await Promise.all(wanted.map(([of, label]) => this.#picture(of, label).catch(() => null))); // then there is no picture
    if (this.isOver || shown !== this.shown) return;
    this.#drop();
    this.urls = figures.filter(Boolean).map(({ url }) => url);
    fill(this.pictures, ...figures.map((figure) => figure?.el));
  }

  async #picture(of, label) {
    const bytes = new Uint8Array(await this.api.content(this.path, of));
    const type = pictureType(bytes);
    if (!type) return null;
    const url = URL.createObjectURL(new Blob([bytes], { type }));
    const words = `${label || "Picture"} of ${revealPath(this.path)}`;
    return { url, el: h("figure", {}, label && h("figcaption", { class: "dim" }, label), h("img", { class: "picture", src: url, alt: words })) };
  }

  #drop() {
    for (const url of this.urls) URL.revokeObjectURL(url);
    this.urls = [];
  }
}
