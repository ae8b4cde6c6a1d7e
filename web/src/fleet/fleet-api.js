// The requests about fleets, one method each.

import { HttpApi } from "../http-api.js";

const name = encodeURIComponent;

export class FleetApi extends HttpApi {
  constructor(options) {
    super("/api/", options);
  }

  /** {fleets, more, workers}: the latest fleets first. */
  fleets = (limit) => this.get("fleets", { limit });
  /** {fleet, spending, jobs, more}: the jobs in a state, "" for all, in their order. */
  fleet = (id, { state, limit }) => this.get(`fleets/${name(id)}`, { state, limit });
  cancelFleet = (id) => this.post(`fleets/${name(id)}/cancel`, {});
  job = (id) => this.get(`fleet-jobs/${name(id)}`);
  /** As `stream`: `event`s after a number, `soFar` for what no event has yet, `job` when its state has changed, `end` when it has ended. */
  events = (id, after, onEvent, signal) => this.stream(`fleet-jobs/${name(id)}/events`, { after }, onEvent, signal);
  cancelJob = (id) => this.post(`fleet-jobs/${name(id)}/cancel`, {});
  /** Propose the changes of a job in this project, once: {run, files, notices}. */
  propose = (id) => this.post(`fleet-jobs/${name(id)}/propose`, {});
}
