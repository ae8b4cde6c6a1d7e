// The remote host of this project, and the state of its connection.

import { fill, h, icon, setAttr } from "./dom.js";
import { plain } from "./format.js";
import { isHostAway } from "./store.js";

const STATES = { lost: "reconnecting", failed: "disconnected" };

/** Describe why the host cannot be reached and what that means; "" if it can be, or if there is no host. */
export function describeOutage(host) {
  if (!isHostAway(host)) return "";
  const why = host.reason ? `: ${plain(host.reason).replace(/\.$/, "")}` : "";
  const place = plain(host.host);
  return host.state === "lost"
    ? `Connection to ${place} lost${why}. Reconnecting… Actions on the host are unavailable until then.`
    : `Not connected to ${place}${why}. Newel reconnects with the next action on the host.`;
}

/** The state of the connection, in a word or two. */
export function describeState({ state, reason, latency }) {
  if (state === "slow") return plain(reason);
  return STATES[state] ?? (latency === null ? "" : `${latency} ms`);
}

/** The tooltip that explains the state. */
function explain(host) {
  if (host.state === "slow") return `Waiting for the host: ${plain(host.reason)}.`;
  return describeOutage(host) || (host.latency === null ? "" : `Latency: ${host.latency} ms`);
}

/** The host in the header: `user@host` (narrow pages leave out the user) and its state. */
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
