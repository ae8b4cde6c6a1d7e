// The review's part of the page: the files on the left, the review on the right, and the places that open as tabs.

import { confirm } from "../dialog.js";
import { fill, h, icon, iconButton, setText, setAttr } from "../dom.js";
import { formatNumber, pluralize, reveal, revealPath } from "../format.js";
import { localStore } from "../local-storage.js";
import { ReviewApi } from "./api.js";
import { RunChanges } from "./changes.js";
import { ThreeWayView } from "./three-way-view.js";
import { DiskWatch } from "./disk-watch.js";
import { FleetApi } from "../fleet/fleet-api.js";
import { FleetJobView } from "../fleet/fleet-job-view.js";
import { FleetList } from "../fleet/fleet-list.js";
import { FleetView } from "../fleet/fleet-view.js";
import { runActions } from "../run-actions.js";
import { LazyView } from "./lazy-view.js";
import { askRevision, showVersions } from "./revise-dialog.js";
import { RunOrigins } from "./run-origin.js";
import { compareId, fileId, foldersOf, parsePlace, requestId, titleOf } from "./routes.js";
import { PendingDiffView } from "./pending-diff-view.js";
import { JobView } from "./job-view.js";
import { JobList } from "./job-list.js";
import { Sidebar } from "./sidebar.js";
import { countPending, createReview } from "./review-store.js";
import { describeEnd, nextUndecidedFile } from "./review-progress.js";
import { Timeline } from "./timeline.js";
import { FileTree } from "./tree.js";
import { UnsentEdits } from "./unsent-edits.js";
import { PendingDecisions } from "./pending-decisions.js";

const WIDE = matchMedia("(min-width: 900.02px)"); // below that width the columns are sheets

export class ReviewLayout {
  /**
   * `show(id)` shows a tab or a place, `changed()` is called when the row of tabs has changed; `tabs()` returns those of the
   * server, `activeId()` the id of the tab or place that is shown, `openSession(id)` opens a conversation that has no tab.
   */
  constructor({ show, changed, tabs, activeId, openSession }) {
    Object.assign(this, { show, changed, activeId, openSession, serverTabs: tabs });
    this.questions = 0; // open questions of review agents
    this.columns = localStore.list("columns"); // open in this window; a new window starts with the last ones
    this.places = localStore.list("places").filter((id) => parsePlace(id));
    this.views = new Map(); // by the place's id
    const spoken = h("p", { class: "sr-only", role: "status" });
    this.end = h("div", { class: "sr-only", role: "status" }); // apart, so that no other message replaces it
    this.live = h("div", {}, spoken, this.end);
    this.announce = (text) => setText(spoken, reveal(text));
    this.api = new ReviewApi({ confirmOverwrite: (words) => confirm({ title: "Overwrite the changes on disk?", words, yes: "Overwrite" }) });
    this.review = createReview({ api: this.api });
    this.unsent = new UnsentEdits();
    this.queue = new PendingDecisions(this);
    this.changes = new RunChanges({ api: this.api, review: this.review, changed });
    this.runActions = runActions(this);
    this.fleets = new FleetApi();
    const origins = new RunOrigins({ review: this.review, tabs, go: (origin) => this.#goTo(origin) });
    const openFile = (path, place) => this.openFile(path, place);
    const parts = { api: this.api, review: this.review, waiting: this.queue, unsent: this.unsent, announce: this.announce, openFile, origins };
    parts.compare = (checkpoint, path) => this.open(compareId(checkpoint, path));
    parts.open = (id) => this.open(id);
    parts.again = (job) => {
      this.toggle("review", true);
      return this.sidebar.again(job);
    };
    parts.nextFile = (path, by) => this.#nextFile(path, by);
    parts.revise = (path, hunk) => askRevision({ path, hunk, send: (words) => this.sidebar.revise(path, hunk, words) });
    parts.cancelRevision = (job) => this.sidebar.work.cancelRevision(job);
    parts.versions = (path, hunk) => showVersions({ path, hunk, titleOf: (run) => origins.titleOf(run) });
    parts.selection = () => this.selection();
    parts.asked = (count) => {
      this.questions = count;
      this.#count();
    };
    this.parts = parts;
    this.tree = new FileTree(parts);
    this.sidebar = new Sidebar(parts);
    this.left = this.#column("files", "Files", this.tree.el);
    this.right = this.#column("review", "Review", this.sidebar.el);
    this.buttons = {
      files: this.#toggle("files", "Files"),
      review: this.#toggle("review", "Review"),
    };
    this.count = h("span", { class: "count" });
    this.buttons.review.append(this.count);
    this.review.subscribe(() => this.#count());
    addEventListener("focus", () => this.review.touch()); // another program may have changed files meanwhile
    WIDE.addEventListener("change", () => this.#columns());
    addEventListener("beforeunload", (event) => this.tabs().some((tab) => tab.isDirty) && event.preventDefault());
    this.#columns();
    this.disk = new DiskWatch({
      api: this.api,
      isUp: () => this.review.get().isUp,
      paths: () => ({ files: this.review.held(), folders: this.tree.shownFolders() }),
      changed: ({ files, folders }) => {
        if (files.length > 0) this.review.touch(files);
        if (folders.length > 0) this.tree.again(folders);
      },
    });
  }

  // -- the columns ----------------------------------------------------------------------------------

  #column(name, title, content) {
    const close = iconButton("close", `Close ${title.toLowerCase()}`, () => this.toggle(name, false));
    return h("aside", { class: `side side-${name}`, id: `side-${name}`, "aria-label": title },
      h("div", { class: "side-head" }, h("h2", { tabindex: "-1" }, title), close), content);
  }

  #toggle(name, words) {
    return h("button", { type: "button", "aria-controls": `side-${name}`, onclick: () => this.toggle(name) }, words);
  }

  get #open() {
    return WIDE.matches ? this.columns : [this.sheet].filter(Boolean);
  }

  /** Open or close a column. Focuses the column, or its button when closed. */
  toggle(name, open = !this.#open.includes(name)) {
    if (WIDE.matches) localStore.set("columns", (this.columns = [...this.columns.filter((each) => each !== name), ...(open ? [name] : [])]));
    else this.sheet = open ? name : null;
    this.#columns();
    if (!open) this.buttons[name].focus();
    else if (name === "review") this.sidebar.focus({ isSheet: !WIDE.matches });
    else {
      this.tree.focus();
      if (!this.left.contains(document.activeElement)) this.left.querySelector("h2").focus(); // there are no rows, or not yet
    }
  }

  /** Close the column with the `focused` element, or leave its text box where it is no sheet; returns whether it is in one. */
  leaveColumn(focused) {
    const name = { [this.left.id]: "files", [this.right.id]: "review" }[focused.closest(".side")?.id];
    if (!name) return false;
    if (WIDE.matches && focused.matches("input, textarea, select")) focused.closest(".side").querySelector("h2").focus();
    else this.toggle(name, false);
    return true;
  }

  /** Close the sheet of a narrow window; returns whether one was open. */
  closeSheet() {
    const name = WIDE.matches ? null : this.sheet;
    if (name) this.toggle(name, false);
    return Boolean(name);
  }

  /** Whether there are questions of review agents while the column that shows them is closed. */
  get hasHiddenQuestion() {
    return this.questions > 0 && !this.#open.includes("review");
  }

  #columns() {
    const open = this.#open;
    for (const [name, column] of [["files", this.left], ["review", this.right]]) {
      column.hidden = !open.includes(name);
      setAttr(this.buttons[name], "aria-expanded", open.includes(name));
    }
    if (open.includes("files")) this.tree.update();
    if (open.includes("review")) this.sidebar.update();
    this.changed();
  }

  #count() {
    const { pending } = this.review.get();
    if (pending !== this.counted) setText(this.end, describeEnd(this.counted, pending));
    this.counted = pending;
    const { files, hunks, conflicts } = countPending(pending);
    setAttr(this.buttons.review, "title", files > 0 ? `${pluralize(hunks, "hunk")} to decide, ${pluralize(files, "file")} to review` : null);
    fill(this.count, this.questions > 0 && [icon("question"), h("span", { class: "sr-only" }, pluralize(this.questions, "question"))], files > 0 && [hunks > 0 ? formatNumber(hunks) : icon("check"), h("span", { class: "sr-only" }, hunks > 0 ? " to decide" : " to save")],
      conflicts > 0 && [icon("warn"), h("span", { class: "sr-only" }, pluralize(conflicts, "conflict"))]);
    this.changed();
  }

  // -- the socket -----------------------------------------------------------------------------------

  /** The ledger changed: `revs` are the new revisions by path; empty if any file may have changed. */
  ledgerChanged(revs) {
    const paths = Object.keys(revs);
    this.review.touch(paths.length ? paths : null, revs);
  }

  /** The connection was lost. A request will show whether the server is gone, too. */
  disconnected() {
    this.review.touch([]);
  }

  /** Connected (again): read what changed meanwhile. */
  async connected(project) {
    this.api.wake();
    this.review.touch();
    this.begun ??= this.unsent.begin(project);
    await this.begun;
    await Promise.all(this.unsent.typedPaths().map((path) => this.#openInBackground(fileId(path)))); // typed text goes first
    this.queue.resume();
  }

  /** The host is reachable again: retry failed reads. */
  hostReconnected() {
    this.review.touch();
    this.tree.again();
    for (const view of this.views.values()) view.again?.();
  }

  // -- the places -----------------------------------------------------------------------------------

  has = (id) => this.places.includes(id);

  /** The places as tabs. Files that are not loaded yet show the counts of the pending list. */
  tabs() {
    const waiting = new Map((this.review.get().pending ?? []).map((file) => [fileId(file.file_path), file]));
    const folders = foldersOf(this.places.map((id) => parsePlace(id)).flatMap(({ path }) => path ?? []));
    return this.places.map((id) => ({
      id, kind: "place", title: revealPath(this.views.get(id)?.name ?? titleOf(id)),
      folder: revealPath(folders.get(parsePlace(id).path) ?? ""), hint: revealPath(parsePlace(id).path ?? ""), status: "idle", activity: 0, queued: 0, model: null,
      isDirty: this.views.get(id)?.isDirty ?? waiting.get(id)?.unsaved > 0,
      waits: waiting.get(id)?.pending ?? 0,
    }));
  }

  /** How many hunks of a conversation's runs are undecided. */
  pendingHunks(session) {
    return this.#runsOf(session).reduce((sum, run) => sum + run.pending, 0);
  }

  #runsOf = (session) => this.review.get().runs.filter((run) => run.session_id === session);

  /** The changes of a conversation's runs, for its transcript; `hello` says whether the server has them. */
  changesOf = (session, hello) => this.changes.of(session, hello.review);

  /** Go to the first undecided hunk of a conversation. */
  reviewOf = (session) => this.reviewRuns(this.#runsOf(session).filter((run) => run.pending > 0).map((run) => run.run_id));

  /** Go to the first undecided hunk of some runs, else to an accepted one, else to all pending changes. */
  reviewRuns = async (runs) => {
    const isOf = ({ run_ids: ids }) => ids.some((id) => runs.includes(id));
    let files = (this.review.get().pending ?? []).filter(isOf);
    if (files.length === 0) files = (await this.api.pending().catch(() => ({ files: [] }))).files.filter(isOf); // they may be new
    const file = files.find((each) => each.pending > 0) ?? files[0];
    if (!file) return this.open("pending");
    this.openFile(file.file_path);
    const { hunks } = await this.api.file(file.file_path).catch(() => ({ hunks: [] })); // its tab shows the problem
    const own = hunks.filter(isOf);
    const first = own.find((hunk) => hunk.state === "pending") ?? own.find((hunk) => hunk.state === "accepted");
    if (first) this.view(fileId(file.file_path)).reveal({ hunk: first.hunk_id });
  };

  /** Show the next file (`by` −1: the previous one) with undecided hunks, around the end of the list; returns whether there is one. */
  #nextFile(path, by) {
    const next = nextUndecidedFile(this.review.get().pending, path, by);
    if (next) this.openFile(next, { undecided: by });
    return next !== null;
  }

  /** The tabs changed, and with them the origins of hunks. */
  tabsChanged() {
    const ofPlaces = [...this.views.values()].flatMap(({ session }) => session ?? []);
    this.changes.keep([...this.serverTabs().map((tab) => tab.session), ...ofPlaces]);
    this.sidebar.update();
  }

  #goTo({ tab, session, request, isUndo }) {
    if (!WIDE.matches && this.sheet) this.toggle(this.sheet, false);
    if (tab) this.show(tab);
    else if (request) this.open(requestId(request));
    else if (isUndo) this.open("checkpoints");
    else if (session) this.openSession(session);
  }

  /** Open a place without showing it; resolves when it is loaded. */
  #openInBackground(id) {
    if (!this.has(id)) this.#keep([...this.places, id]);
    return this.views.has(id) ? this.view(id).load() : this.view(id).begun;
  }

  open(id) {
    if (!this.has(id)) this.#keep([...this.places, id]);
    if (!WIDE.matches) this.toggle(this.sheet ?? "files", false);
    this.show(id);
  }

  /** Show a file, at a hunk or a line if `place` names one: see `reveal` of its editor. */
  openFile(path, place = null) {
    const id = fileId(path);
    this.open(id);
    if (place) this.view(id).reveal?.(place);
  }

  async close(id) {
    const view = this.views.get(id);
    const sure = !this.tabs().find((tab) => tab.id === id)?.isDirty || (await confirm({
      title: `Close ${revealPath(parsePlace(id).path ?? titleOf(id))}?`,
      words: "Your edits are kept in the review, but not saved to the file yet.",
      yes: "Close",
    }));
    if (!sure) return;
    view?.destroy?.();
    this.views.delete(id);
    this.#keep(this.places.filter((each) => each !== id));
  }

  #keep(places) {
    this.places = places;
    localStore.set("places", places);
    this.changed();
  }

  /** The view of a place: {el, shown(), hidden(), focus()}. */
  view(id) {
    if (!this.views.has(id)) {
      const { kind, ...named } = parsePlace(id);
      const given = { ...this.parts, ...named };
      const ofFleet = { ...given, api: this.fleets, reviewRuns: this.reviewRuns };
      const make = {
        file: () => new LazyView(() => import("./editor.js").then(({ FileEditor }) => new FileEditor(given))),
        compare: () => new ThreeWayView(given),
        pending: () => new PendingDiffView(given),
        checkpoints: () => new Timeline(given),
        requests: () => new JobList(given),
        request: () => new JobView(given),
        fleets: () => new FleetList(ofFleet),
        fleet: () => new FleetView(ofFleet),
        "fleet-job": () => new FleetJobView({
          ...ofFleet, changesOf: (session) => this.changes.of(session), runActions: this.runActions,
        }),
      };
      const view = make[kind]();
      view.onState?.(() => this.changed());
      this.views.set(id, view);
      view.begun = view.load?.();
    }
    return this.views.get(id);
  }

  /** The selection in the file that is shown: {path, startLine, endLine, text}; null for nothing. */
  selection() {
    const id = this.activeId();
    const selected = this.views.get(id)?.selection;
    return selected ? { path: parsePlace(id).path, ...selected } : null;
  }
}
