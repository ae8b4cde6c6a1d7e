// One fleet: what it has spent, and its jobs.

import { confirm } from "../dialog.js";
import { fill, h, reconcile, setText, showButton } from "../dom.js";
import { plain, pluralize, reveal } from "../format.js";
import { Polling } from "../polling.js";
import { fleetJobId } from "../review/routes.js";
import { badge } from "../tabs.js";
import { describeSpending, isLive, ordered, titleOf, total } from "./fleet-state.js";

const PAGE = 100;
const MOST = 1_000; // the server lists no more
const LIVE_DELAY = 2_000; // ms until the jobs are read again while one runs

export class FleetView extends Polling {
  /** `api` is a FleetApi, `fleet` the fleet's id, `open(id)` opens a place, `reviewRuns(runs)` goes to the first hunk of some jobs. */
  constructor({ api, fleet, open, reviewRuns }) {
    super();
    Object.assign(this, { api, id: fleet, open, reviewRuns });
    this.limit = PAGE;
    this.rows = new Map(); // by the job's id
    this.title = h("h2", { tabindex: "-1" }, `Fleet ${plain(fleet)}`);
    this.cancel = h("button", { type: "button", hidden: true, onclick: () => this.#cancel() }, "Cancel jobs…");
    this.propose = h("button", { type: "button", hidden: true, onclick: () => this.#propose() }, "Review changes");
    this.note = h("p", { class: "dim note", role: "status" }, "Loading…"); // about the list
    this.said = h("p", { class: "note", role: "status", hidden: true }); // about what a button does
    this.states = h("div", { class: "row", role: "group", "aria-label": "Show the jobs in one state" });
    this.spending = h("p", { class: "dim" });
    this.state = ""; // of the jobs that are shown; "" for all
    this.list = h("ol", { class: "timeline-list" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.#more() }, "Show more");
    this.el = h("section", { class: "panel timeline", "aria-label": "Fleet" },
      h("div", { class: "panel-head" }, this.title, h("div", { class: "row" }, this.propose, this.cancel)), this.states, this.spending, this.said, this.note, this.list, this.more);
  }

  focus() {
    (this.list.querySelector("button") ?? this.title).focus();
  }

  #more() {
    this.limit = Math.min(MOST, this.limit * 2);
    this.read();
  }

  async #cancel() {
    const sure = await confirm({
      title: `Cancel the jobs of fleet ${plain(this.id)}?`,
      words: `${pluralize(this.live, "job")} will end. What they have changed so far can still be reviewed.`,
      yes: "Cancel jobs",
    });
    if (!sure) return;
    try {
      const { cancelled } = await this.api.cancelFleet(this.id);
      this.#say(`${pluralize(cancelled, "job")} cancelled.`);
    } catch (error) {
      this.#say(error.message);
    }
    this.read();
  }

  /** Propose the changes of all jobs that have ended, and go to the first hunk. */
  async #propose() {
    this.propose.disabled = true;
    try {
      const { jobs } = await this.api.fleet(this.id, { state: "", limit: MOST });
      const ended = jobs.filter(({ status }) => !isLive(status));
      for (const [index, { id }] of ended.entries()) {
        this.#say(`Proposing the changes of job ${index + 1} of ${ended.length}…`);
        await this.api.propose(id);
      }
      this.said.hidden = true;
      await this.reviewRuns(ended.map(({ id }) => id));
    } catch (error) {
      this.#say(error.message);
    } finally {
      this.propose.disabled = false;
    }
  }

  #say(words) {
    this.said.hidden = false;
    setText(this.said, plain(words));
  }

  async read() {
    const asked = (this.asked = (this.asked ?? 0) + 1);
    try {
      const { fleet, spending = null, jobs, more } = await this.api.fleet(this.id, { state: this.state, limit: this.limit });
      if (asked !== this.asked) return;
      this.note.hidden = true;
      this.live = Object.entries(fleet.states).reduce((sum, [status, count]) => sum + (isLive(status) ? count : 0), 0);
      this.cancel.hidden = this.live === 0;
      this.propose.hidden = this.live === total(fleet.states);
      showButton(this.more, more && this.limit < MOST, () => this.list.lastElementChild?.querySelector("button"));
      this.#showStates(fleet.states);
      setText(this.spending, describeSpending(spending));
      reconcile(this.list, this.rows, jobs, {
        keyOf: ({ id }) => id, create: ({ id }) => this.#row(id), update: (row, job) => this.#update(row, job),
      });
      if (this.live > 0) this.scheduleRead(LIVE_DELAY);
    } catch (error) {
      if (asked !== this.asked) return;
      this.note.hidden = false;
      setText(this.note, plain(error.message));
      this.scheduleRead(LIVE_DELAY);
    }
  }

  /** The states with the numbers of their jobs, as switches. */
  #showStates(states) {
    const key = JSON.stringify([states, this.state]);
    if (key === this.shownStates) return;
    this.shownStates = key;
    const choice = (state, words) => h("button", {
      type: "button", class: "quiet", "data-state": state, "aria-pressed": String(state === this.state),
      onclick: () => {
        Object.assign(this, { state, limit: PAGE });
        this.read();
      },
    }, words);
    const focused = this.states.contains(document.activeElement) ? document.activeElement.dataset.state : null;
    fill(this.states, choice("", pluralize(total(states), "job")), ...ordered(states).map(([state, count]) => choice(state, `${count.toLocaleString("en")} ${state}`)));
    if (focused !== null) (this.states.querySelector(`[data-state="${CSS.escape(focused)}"]`) ?? this.title).focus();
  }

  #row(id) {
    const number = h("span", { class: "dim fleet-number" });
    const title = h("span", { class: "timeline-title" });
    const aside = h("span", { class: "dim fleet-place" });
    const state = h("span");
    const button = h("button", { type: "button", class: "quiet timeline-head", onclick: () => this.open(fleetJobId(id)) }, number, title, aside, state);
    return { el: h("li", {}, button), number, title, aside, state };
  }

  #update(row, job) {
    const key = JSON.stringify(job);
    if (key === row.key) return;
    row.key = key;
    setText(row.number, String(job.number));
    setText(row.title, titleOf(job));
    setText(row.aside, reveal(isLive(job.status) ? job.worker : job.reason));
    fill(row.state, badge(job));
  }
}
