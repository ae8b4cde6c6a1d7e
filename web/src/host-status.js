// The host that is worked on: where it is, and how the way there is.

import { fill, h, icon, setAttr } from "./dom.js";
import { plain } from "./format.js";

const STATES = { lost: "lost, trying again", failed: "no connection" };

/** What is wrong with the way to a host, and what that means here; empty while it is there, or where there is none. */
export function describeOutage(host) {
  if (!host || host.state === "up" || host.state === "slow") return "";
  const why = host.reason ? `: ${plain(host.reason).replace(/\.$/, "")}` : "";
  const place = plain(host.host);
  return host.state === "lost"
    ? `The connection to ${place} is lost${why}. Newel tries to get it back; what needs the host cannot be done until then.`
    : `There is no connection to ${place}${why}. Newel tries again when something is asked for there.`;
}

/** How the way is, in a word or two. */
export function describeState({ state, reason, latency }) {
  if (state === "slow") return plain(reason);
  return STATES[state] ?? (latency === null ? "" : `${latency} ms`);
}

/** What the words mean. */
function explain(host) {
  if (host.state === "slow") return `There is ${plain(host.reason)}. Newel waits for it.`;
  return describeOutage(host) || (host.latency === null ? "" : `A request takes ${host.latency} ms.`);
}

/** In the header: `user@host`, of which a narrow page leaves out the user, and the state. */
export class HostStatus {
  constructor() {
    this.el = h("span", { class: "host", hidden: true });
  }

  update({ host, project }) {
    const shown = JSON.stringify([host, project]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.el.hidden = !host;
    if (!host) return;
    setAttr(this.el, "title", [plain(project), explain(host)].filter(Boolean).join("\n"));
    fill(this.el,
      h("span", { class: "host-name" }, host.user && h("span", { class: "host-user" }, `${plain(host.user)}@`), plain(host.host)),
      h("span", { class: `host-state ${host.state}` }, host.state !== "up" && icon("warn"), h("span", { class: "host-words" }, describeState(host))));
  }
}
