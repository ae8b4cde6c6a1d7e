// The fleets of the database: contract, time and progress, and the workers.

import { fill, h, reconcile, setText, showButton } from "../dom.js";
import { formatTime, plain, pluralize, reveal } from "../format.js";
import { Polling } from "../polling.js";
import { badge } from "../tabs.js";
import { describeStates, describeWorkers, isLive, statusOf, total } from "./fleet-state.js";
import { fleetId } from "../review/routes.js";

const PAGE = 50;
const MOST = 500; // the server lists no more
const LIVE_DELAY = 2_000; // ms until the list is read again while a job runs
const IDLE_DELAY = 10_000; // ms otherwise: somebody else may submit a fleet

export class FleetList extends Polling {
  /** `api` is a FleetApi, `open(id)` opens a place. */
  constructor({ api, open }) {
    super();
    Object.assign(this, { api, open });
    this.limit = PAGE;
    this.rows = new Map(); // by the fleet's id
    this.note = h("p", { class: "dim note", role: "status" }, "Loading…");
    this.workers = h("p", { class: "dim" });
    this.list = h("ol", { class: "timeline-list" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.#more() }, "Show earlier");
    this.el = h("section", { class: "panel timeline", "aria-label": "Fleets" },
      h("div", { class: "panel-head" }, h("h2", { tabindex: "-1" }, "Fleets")), this.workers, this.note, this.list, this.more);
  }

  focus() {
    (this.list.querySelector("button") ?? this.el.querySelector("h2")).focus();
  }

  #more() {
    this.limit = Math.min(MOST, this.limit * 2);
    this.read();
  }

  async read() {
    const asked = (this.asked = (this.asked ?? 0) + 1);
    let delay = IDLE_DELAY;
    try {
      const { fleets, workers, more } = await this.api.fleets(this.limit);
      if (asked !== this.asked) return;
      this.note.hidden = fleets.length > 0;
      setText(this.note, "No fleets yet. `newel fleet run` submits one.");
      setText(this.workers, describeWorkers(workers));
      showButton(this.more, more && this.limit < MOST, () => this.list.lastElementChild?.querySelector("button"));
      reconcile(this.list, this.rows, fleets, {
        keyOf: ({ id }) => id, create: ({ id }) => this.#row(id), update: (row, fleet) => this.#update(row, fleet),
      });
      if (fleets.some(({ states }) => isLive(statusOf(states)))) delay = LIVE_DELAY;
    } catch (error) {
      if (asked !== this.asked) return;
      this.note.hidden = false;
      setText(this.note, plain(error.message));
    }
    this.scheduleRead(delay);
  }

  #row(id) {
    const [time, title, aside, state] = ["time", "span", "span", "span"].map((tag) => h(tag));
    title.className = "timeline-title";
    aside.className = "dim";
    const button = h("button", { type: "button", class: "quiet timeline-head", onclick: () => this.open(fleetId(id)) }, time, title, aside, state);
    return { el: h("li", {}, button), time, title, aside, state };
  }

  #update(row, fleet) {
    const { created, title, states } = fleet;
    const key = JSON.stringify(fleet);
    if (key === row.key) return;
    row.key = key;
    row.time.dateTime = created;
    row.time.title = new Date(created).toLocaleString();
    setText(row.time, formatTime(Date.parse(created)));
    setText(row.title, reveal(title.split("\n")[0]));
    setText(row.aside, total(states) === 1 ? "1 job" : `${pluralize(total(states), "job")}: ${describeStates(states)}`);
    fill(row.state, badge({ status: statusOf(states) }));
  }
}
