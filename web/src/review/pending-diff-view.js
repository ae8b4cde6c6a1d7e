// All pending changes in the project, file by file, each hunk to accept or reject. Only visible hunks are in the
// page, and only visible files are read.

import { h, icon, isFocusLost, onceClicked, setText, setAttr } from "../dom.js";
import { formatNumber, plain, pluralize, reveal, revealPath } from "../format.js";
import { KEEP_FILE, describePendingDecision, describeSkipped, formatPlace, isSplittable, keepLabel } from "./hunk-format.js";
import { stepOf } from "./editor-keys.js";
import { parsePatch } from "./patch.js";
import { hunksView } from "./patch-view.js";
import { currentKey, firstHunk, nextHunk, pendingRows } from "./pending-list-rows.js";
import { choiceOf } from "./pending-decisions.js";
import { ProgressBar } from "./progress-bar.js";
import { filesToSave, isFileReviewed, isReviewed, saveLabel } from "./review-progress.js";
import { describeChange, describeWholeFile } from "./change-labels.js";
import { countPending } from "./review-store.js";
import { describeRevision, isRevisable } from "./revisions.js";
import { VirtualList } from "./virtual-list.js";

const FIRST = 30; // lines of a hunk that are shown at first
const MAX_HELD_FILES = 40; // files that are kept up to date at once
const KEYS = { j: 1, k: -1 };

export class PendingDiffView {
  constructor({ api, review, waiting, openFile, origins, announce, revise, cancelRevision, versions }) {
    Object.assign(this, { api, review, decisions: waiting, openFile, origins, announce, revise, cancelRevision, versions });
    this.views = new Map(); // path → {rev, hunks}
    this.held = new Map(); // path → function that releases it; the latest last
    this.notes = new Map(); // by row: a message, or {choose} to ask about the user's own lines
    this.folds = new Map(); // by path: {isFolded, isDone}, as the user left it
    this.done = []; // decisions made here that a step back reopens, the latest last: {path, id}
    this.at = null;
    this.rows = [];
    this.window = new VirtualList({ draw: (row) => this.#row(row), dress: (el, row) => this.#dress(el, row), props: { role: "list", "aria-label": "Hunks to review" } });
    this.sum = h("p", { class: "dim", role: "status" }, "Loading…");
    this.save = h("button", { type: "button", hidden: true, onclick: () => this.#save() });
    this.progress = new ProgressBar();
    this.title = h("h2", { tabindex: "-1" }, "All pending changes");
    this.note = h("p", { class: "warn-text", role: "status", hidden: true });
    this.el = h("section", { class: "panel waiting-list", "aria-label": "All pending changes", onkeydown: (event) => this.#key(event) },
      h("div", { class: "pending-head" }, this.title, this.sum, h("span", { class: "spacer" }), this.save, this.progress.el),
      this.note, this.window.el);
  }

  load() {
    this.stop = this.review.subscribe((state) => this.#take(state));
    this.review.touch([]);
    this.#take(this.review.get());
  }

  shown() {
    this.window.render();
  }

  hidden() {}

  focus() {
    const key = this.rows.some((row) => row.key === this.at) ? this.at : firstHunk(this.rows);
    if (key) this.#go(key);
    else this.title.focus(); // until it is loaded
  }

  destroy() {
    this.stop?.();
    for (const release of this.held.values()) release();
    this.window.destroy();
  }

  // -- what is known --------------------------------------------------------------------------------

  #take(state) {
    const wasReviewed = isReviewed(this.pending);
    this.pending = state.pending;
    this.isUp = state.isUp;
    this.progress.update(state.progress);
    this.waiting = state.isUp ? {} : state.waiting;
    const waits = new Map((state.pending ?? []).map((file) => [file.file_path, file]));
    for (const path of this.views.keys()) if (!waits.has(path)) this.views.delete(path);
    for (const path of waits.keys()) {
      const view = state.files[path];
      if (view && this.views.get(path)?.rev !== view.rev) this.views.set(path, { rev: view.rev, hunks: view.hunks });
    }
    for (const [path, release] of this.held) {
      if (waits.has(path)) continue;
      this.held.delete(path);
      release();
    }
    const hadFocus = this.window.el.contains(document.activeElement);
    this.#draw();
    if (hadFocus && isReviewed(this.pending) && !wasReviewed) this.save.focus(); // what is left to do
  }

  /** Keep a file up to date while it is visible, and a while longer. */
  #hold(path) {
    const known = this.held.get(path);
    this.held.delete(path);
    this.held.set(path, known ?? this.review.hold(path));
    if (this.held.size <= MAX_HELD_FILES) return;
    const [oldest, release] = this.held.entries().next().value;
    this.held.delete(oldest);
    release();
  }

  #draw() {
    this.rows = pendingRows({ ...this, state: this.review.get() });
    const at = currentKey(this.rows, this.at);
    const moves = at !== this.at && this.el.contains(document.activeElement); // the focused row is about to be replaced
    this.at = at;
    const { files, hunks, conflicts } = countPending(this.pending);
    const parts = [
      hunks > 0 ? `${pluralize(hunks, "hunk")} to decide in ${pluralize(files, "file")}` : pluralize(files, "file"),
      conflicts > 0 && pluralize(conflicts, "conflict"),
    ];
    if (this.pending) setText(this.sum, files ? parts.filter(Boolean).join(" · ") : "No pending changes. Agents' proposals appear here.");
    setText(this.save, saveLabel(this.pending));
    setAttr(this.save, "class", isReviewed(this.pending) ? "primary" : null);
    this.save.hidden = filesToSave(this.pending).length === 0;
    this.save.disabled = !this.isUp;
    setAttr(this.window.list, "role", this.rows.length ? "list" : "group");
    this.window.set(this.rows.map((row) => ({ ...row, stamp: `${row.stamp} ${this.isUp}` })));
    if (moves || document.activeElement === this.title) this.focus();
  }

  // -- what is shown --------------------------------------------------------------------------------

  #row(row) {
    if (row.kind === "file") return this.#fileRow(row);
    if (row.kind === "hunk") return this.#hunkRow(row);
    this.#hold(row.file.file_path);
    return h("div", { class: "pending-unknown dim", role: "listitem" }, "Loading…");
  }

  /** Mark the hunk that the keys apply to. */
  #dress(el, { key, kind }) {
    if (kind === "file") return;
    setAttr(el, "tabindex", key === this.at ? "0" : "-1");
    setAttr(el, "aria-current", key === this.at ? "true" : null);
  }

  #fileRow({ file, isFolded, note }) {
    const path = file.file_path;
    if (!isFolded) this.#hold(path);
    const name = revealPath(path);
    const act = (words, onclick) => h("button", { type: "button", "aria-label": `${words} in ${name}`, onclick: onceClicked(onclick) }, words);
    const from = h("span", { class: "origins" });
    this.origins.show(from, file.run_ids);
    const words = describeChange(file);
    return h("div", { class: "pending-file", role: "listitem" },
      h("button", { type: "button", class: "quiet pending-fold", "aria-expanded": String(!isFolded), onclick: () => this.#fold(path, !isFolded) },
        icon(isFolded ? "right" : "down"), h("span", { class: "mono pending-path", title: name }, name)),
      words && h("span", { class: "badge" }, words),
      h("span", { class: "dim" }, countOf(file)), from,
      note && h("span", { class: "warn-text" }, note),
      h("span", { class: "spacer" }),
      h("span", { class: "row-actions" },
        h("button", { type: "button", class: "quiet", "aria-label": `Open ${name}`, onclick: () => this.openFile(path) }, "Open"),
        file.pending > file.pending_conflicts && act("Accept all", () => this.#decideAll(path, "accept")),
        file.pending > 0 && act("Reject all", () => this.#decideAll(path, "reject"))));
  }

  /** A move: one row for two files with the same content. */
  #moveRow({ key, file, from, note }) {
    for (const each of [from, file]) this.#hold(each.file_path);
    const [old, path] = [from, file].map((each) => revealPath(each.file_path));
    const isAccepted = file.accepted > 0;
    const button = (words, choice, props = {}) =>
      h("button", { type: "button", "aria-label": `${words}: ${old} to ${path}`, onclick: onceClicked(() => this.#move(key, [from, file], choice)), ...props }, words);
    return h("div", {
      class: "pending-hunk pending-move", role: "listitem", "data-key": key, "aria-label": `${old} moved to ${path}, unchanged`,
      onfocus: () => this.at !== key && this.#mark(key),
    },
    h("div", { class: "pending-actions" },
      h("span", { class: "mono pending-path" }, `${old} → ${path}`),
      h("span", { class: "badge" }, "moved, unchanged"),
      h("span", { class: "dim" }, this.origins.wordsOf({ run_ids: file.run_ids }, file)),
      isAccepted && h("span", { class: "badge completed" }, icon("check"), "Accepted, unsaved"),
      h("span", { class: "spacer" }),
      h("span", { class: "row-actions" },
        h("button", { type: "button", class: "quiet", "aria-label": `Open ${path}`, onclick: () => this.openFile(file.file_path) }, "Open"),
        isAccepted ? button("Undo accept", "pending") : [
          button("Accept", "accepted", { "aria-keyshortcuts": "A" }), button("Reject", "rejected", { "aria-keyshortcuts": "R" }),
        ])),
    typeof note === "string" && h("p", { class: "warn-text" }, note));
  }

  async #move(key, files, choice) {
    const next = choice === "pending" ? null : this.#after(key);
    const hadFocus = this.el.contains(document.activeElement);
    this.#say(key, null);
    const decided = await Promise.all(files.map(async ({ file_path: path, hunk_ids: ids }) => {
      const hunks = (this.views.get(path) ?? (await this.api.file(path))).hunks.filter((hunk) => ids.includes(hunk.hunk_id));
      return this.decisions.choose(path, hunks, choice);
    }));
    const problem = decided.find((each) => each.problem)?.problem;
    if (problem) this.#refused(problem, key, files[0].file_path);
    else this.announce({ accepted: "Accepted", rejected: "Rejected", pending: "Undecided again" }[choice]);
    if (!problem && hadFocus && next) this.#go(next);
  }

  #hunkRow({ key, file, from, hunk, place, count, note, waits, revision, answer }) {
    if (from) return this.#moveRow({ key, file, from, note });
    const path = file.file_path;
    this.#hold(path);
    const isAll = count === 1 && hunk.kind === "lines" && file.change !== "modified";
    const lines = hunk.kind !== "lines" ? "the whole file" : isAll ? reveal(file.about) || { created: "a new file", deleted: "the file is deleted" }[file.change] : formatPlace(hunk);
    const label = `Hunk ${place} of ${count} in ${revealPath(path)}, ${lines}`;
    const [patch] = parsePatch(hunk.patch);
    return h("div", {
      class: `pending-hunk${hunk.conflict ? " is-conflict" : ""}${hunk.origin === "user" ? " is-own" : ""}`, role: "listitem", "data-key": key, "aria-label": label,
      onfocus: () => this.at !== key && this.#mark(key),
    },
    h("div", { class: "pending-actions" },
      h("span", { class: "dim" }, lines),
      hunk.origin === "user" && h("span", { class: "badge" }, "yours"),
      h("span", { class: "dim" }, this.origins.wordsOf(hunk, file)),
      hunk.conflict && h("span", { class: "badge waiting" }, icon("warn"), "Conflict: these lines changed on disk"),
      hunk.warning && h("span", { class: "badge waiting" }, icon("warn"), hunk.warning),
      hunk.state === "accepted" && h("span", { class: "badge completed" }, icon("check"), "Accepted, unsaved"),
      waits && h("span", { class: "badge waiting" }, describePendingDecision(waits)),
      revision && h("span", { class: "hunk-revision" }, icon("edit"), reveal(describeRevision(revision))),
      h("span", { class: "spacer" }),
      h("span", { class: "row-actions", "data-asks": hunk.conflict || Boolean(waits || note?.choose) },
        ...(waits || note?.choose ? [] : this.#more(path, hunk, revision)), ...this.#buttons(path, hunk, key, note, waits))),
    typeof note === "string" && h("p", { class: "warn-text" }, note),
    answer && !revision && h("p", { class: "hunk-answer" }, icon("info"), h("span", {}, `No new version: ${plain(answer)}`)),
    patch ? hunksView(patch.hunks, { heads: false, first: FIRST, label: `Changes of hunk ${place} in ${revealPath(path)}` })
      : h("p", { class: "dim note" }, describeWholeFile(hunk, file)));
  }

  #buttons(path, hunk, key, note, waits) {
    const button = (words, run, props = {}) => h("button", { type: "button", onclick: onceClicked(run), ...props }, words);
    if (waits) return [button("Undo", () => this.decisions.withdraw(path, hunk.hunk_id))];
    const decide = (action, mine = null) => () => this.#decide(path, action, { key, hunk, mine });
    if (note?.choose) {
      return [
        h("span", {}, "It contains your lines. Reject"),
        button("only my lines", decide("reject", "peel")), button("all of it", decide("reject", "base")),
        button("Cancel", () => this.#say(key, null)),
      ];
    }
    if (hunk.state === "accepted") return [button("Undo accept", decide("reopen"))];
    const keys = { "aria-keyshortcuts": "R" };
    if (hunk.conflict) return [button(keepLabel(hunk), decide("accept")), button(KEEP_FILE, decide("reject", hunk.mine ? "base" : null), keys)];
    if (hunk.origin === "user") return [button("Discard", decide("reject", "base"), keys)];
    return [button("Accept", decide("accept"), { "aria-keyshortcuts": "A" }), button("Reject", decide("reject"), keys)];
  }

  /** What is done more rarely than to accept or reject. */
  #more(path, hunk, revision) {
    const button = (words, run, props = {}) => h("button", { type: "button", class: "quiet", onclick: onceClicked(run), ...props }, words);
    const revise = () => this.revise(path, hunk);
    return [
      hunk.earlier.length > 0 && button("Earlier version", () => this.versions(path, hunk)),
      hunk.state === "pending" && !revision && isSplittable(hunk) && button("Split", () => this.#split(path, hunk), { "aria-keyshortcuts": "S" }),
      revision ? button("Cancel revision", () => this.cancelRevision(revision))
        : isRevisable(hunk) && button("Revise", revise, { "aria-keyshortcuts": "C", title: "Say what should be different (C)" }),
    ];
  }

  // -- what is done ---------------------------------------------------------------------------------

  #fold(path, isFolded) {
    this.folds.set(path, { isFolded, isDone: isFileReviewed(this.pending.find((file) => file.file_path === path)) });
    this.#draw();
    this.window.reveal(`file/${path}`)?.querySelector("button").focus();
  }

  #mark(key) {
    this.at = key;
    this.window.render();
  }

  #go(target) {
    const key = currentKey(this.rows, target);
    this.#mark(key);
    this.window.reveal(key)?.focus({ preventScroll: true });
  }

  #say(key, note) {
    if (note) this.notes.set(key, note);
    else this.notes.delete(key);
    this.#draw();
  }

  async #decide(path, action, { key, hunk, mine = null }) {
    if (action === "reject" && hunk.mine && !mine) return this.#say(key, { choose: true });
    const next = action === "accept" || action === "reject" ? this.#after(key) : null;
    const hadFocus = this.el.contains(document.activeElement);
    this.#say(key, null);
    if (hadFocus && next && !this.isUp) this.#go(next);
    const { isDone, problem } = await this.decisions.choose(path, [hunk], choiceOf(action, mine), { base: mine === "base" });
    if (isDone) this.announce({ accept: "Accepted", reject: "Rejected", reopen: "Undecided again" }[action]);
    if (isDone && action !== "reopen" && !mine) this.done.push({ path, id: hunk.hunk_id });
    if (isDone && hadFocus && next && this.isUp) this.#go(next);
    if (problem) this.#refused(problem, key, path);
  }

  /** Reopen the hunk that was decided last here, unless it is saved or decided anew. */
  async #stepBack() {
    const { path, id } = this.done.pop();
    const { hunks } = this.views.get(path) ?? (await this.api.file(path).catch(() => ({ hunks: [] })));
    const hunk = hunks.find((each) => each.hunk_id === id && each.state !== "pending");
    if (!hunk) return this.announce("Nothing to undo: the hunk is saved or undecided.");
    await this.#decide(path, "reopen", { key: `hunk/${path}/${id}`, hunk });
    this.#go(`hunk/${path}/${id}`);
  }

  async #split(path, hunk) {
    const key = `hunk/${path}/${hunk.hunk_id}`;
    this.#say(key, null);
    try {
      await this.decisions.settled(path);
      const { rev } = await this.api.file(path);
      await this.review.take(path, this.api.decide(path, rev, "split", { hunks: [hunk.seen_id] }));
      this.announce("Split");
      this.#go(`hunk/${path}/${hunk.hunk_id}-1`);
    } catch (error) {
      this.#refused(error.message, key, path);
    }
  }

  /** Decide all undecided hunks of a file; conflicts are not accepted, and the user's own lines not rejected. */
  async #decideAll(path, action) {
    const key = `file/${path}`;
    const { hunk_ids: seen } = this.pending.find((file) => file.file_path === path);
    const { hunks } = this.views.get(path) ?? (await this.api.file(path)); // a folded one is not loaded
    const open = hunks.filter((hunk) => hunk.state === "pending" && seen.includes(hunk.seen_id));
    const some = open.filter((hunk) => !(action === "accept" ? hunk.conflict : hunk.mine));
    this.#say(key, null);
    const { isDone, problem } = await this.decisions.choose(path, some, choiceOf(action));
    if (isDone) this.announce(`${action === "accept" ? "Accepted" : "Rejected"} all of ${revealPath(path)}.`);
    if (isDone && action === "reject" && some.length < open.length) this.#say(key, describeSkipped(open.length - some.length));
    if (problem) this.#refused(problem, key, path);
  }

  /** The undecided hunk to go to when the one of `key` is decided; null for none. */
  #after(key) {
    const next = nextHunk(this.rows, key, 1);
    return next === key ? null : next;
  }

  #refused(words, key, path) {
    this.review.touch([path]);
    this.announce(words);
    this.#say(key, words);
  }

  async #save() {
    this.save.disabled = true;
    this.note.hidden = true;
    let next = this.title;
    try {
      const saved = await this.decisions.saveAccepted();
      this.announce(`${pluralize(saved.length, "file")} saved.`);
    } catch (error) {
      this.note.hidden = false;
      setText(this.note, `Not saved: ${error.message}`);
      next = this.save;
    } finally {
      this.review.touch();
      this.save.disabled = !this.isUp;
      if (isFocusLost()) next.focus();
    }
  }

  #key(event) {
    if (stepOf(event) === "undo" && this.done.length > 0 && !event.target.matches("input, textarea")) {
      event.preventDefault();
      event.stopPropagation();
      this.#stepBack();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.target.matches("input, textarea")) return;
    const key = event.key.toLowerCase();
    const row = this.rows.find((each) => each.key === this.at && each.kind === "hunk");
    if (KEYS[key]) {
      const next = nextHunk(this.rows, this.at, KEYS[key]);
      if (next) this.#go(next);
    } else if (row && "arcs".includes(key)) {
      this.window.reveal(row.key).querySelector(`[aria-keyshortcuts="${key.toUpperCase()}"]:enabled`)?.click();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const countOf = ({ pending, accepted, unsaved, rejected, pending_conflicts: conflicts }) => [
  pending > 0 && `${formatNumber(pending)} to decide`, conflicts > 0 && pluralize(conflicts, "conflict"), accepted > 0 && `${formatNumber(accepted)} accepted`,
  unsaved > accepted && `${formatNumber(unsaved - accepted)} yours`, rejected > 0 && `${formatNumber(rejected)} rejected`,
].filter(Boolean).join(" · ");
