// The panel of MCP servers: their state, their tools, and the decision whether they may run.

import { fill, h, icon, iconButton } from "./dom.js";
import { plain, pluralize, reveal } from "./format.js";

const STATE_ICONS = { active: "check", starting: "again", broken: "close", untrusted: "question", disabled: "stop" };

/** Count the servers by state: {good, bad, waiting, starting}. */
export function countServers(servers) {
  const count = (...states) => servers.filter((server) => states.includes(server.state)).length;
  return { good: count("active"), bad: count("broken"), waiting: count("untrusted"), starting: count("starting") };
}

export class ToolsPanel {
  constructor({ actions, close }) {
    Object.assign(this, { actions });
    this.list = h("div", { class: "servers" });
    this.open = new Set(); // names of servers whose tools are unfolded
    this.el = h("div", { class: "tools-panel", id: "tools-panel", role: "region", "aria-label": "MCP tools", hidden: true },
      h("div", { class: "panel-head" }, h("h2", {}, "MCP Tools"), iconButton("close", "Close tools", close)),
      this.list);
  }

  update(servers) {
    if (servers === this.shown || this.el.hidden) return;
    this.shown = servers;
    const focused = document.activeElement?.closest("[data-key]")?.dataset.key;
    const asking = servers.filter((server) => server.state === "untrusted");
    const others = servers.filter((server) => server.state !== "untrusted");
    fill(this.list, servers.length ? [...asking, ...others].map((server) => this.#server(server)) : emptyList());
    const key = this.decided && others.some((server) => server.name === this.decided) ? `on:${this.decided}` : focused;
    if (key !== focused) this.decided = null;
    if (key) this.list.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  }

  #server(server) {
    const { name, state } = server;
    const on = state !== "disabled";
    return h(
      "section", { class: `server ${state}`, "aria-label": reveal(name) },
      h("div", { class: "server-head" },
        h("span", { class: "server-sign" }, icon(STATE_ICONS[state])),
        h("strong", {}, reveal(name)), h("span", { class: "server-state" }, `(${state})`),
        h("span", { class: "spacer" }),
        on && state !== "untrusted" && iconButton("again", `Restart ${reveal(name)}`, () => this.actions.restartServer(name), { "data-key": `again:${name}` }),
        state !== "untrusted" && h("label", { class: "switch small" },
          h("input", {
            type: "checkbox", checked: on, "data-key": `on:${name}`, "aria-label": `${reveal(name)} is on`,
            onchange: (event) => this.actions.setServer(name, { enabled: event.target.checked }),
          }), "on")),
      server.reason && state !== "untrusted" && h("p", { class: state === "broken" ? "bad-text" : "dim" }, plain(server.reason)),
      state === "untrusted" ? this.#trust(server) : h("p", { class: "dim target" }, h("code", {}, reveal(server.target))),
      server.stderr && h("details", { open: state === "broken" }, h("summary", {}, "Last output"),
        h("pre", { class: "output", tabindex: "0", "aria-label": `Last output of ${reveal(name)}` }, plain(server.stderr))),
      server.tools.length > 0 && this.#tools(server),
    );
  }

  #trust(server) {
    return h("div", { class: "trust" },
      h("p", {}, h("code", {}, reveal(server.origin)), " configures this server. If you trust it, Newel runs exactly this command:"),
      h("pre", { class: "exact", tabindex: "0", "aria-label": "Command" }, reveal(server.target)),
      server.folder && h("p", {}, "Folder: ", h("code", {}, reveal(server.folder))),
      server.env?.length > 0 && h("p", {}, "Environment variables: ",
        ...server.env.flatMap((name, index) => [index ? ", " : "", h("code", {}, reveal(name))])),
      h("div", { class: "row" },
        h("button", { type: "button", class: "primary", onclick: () => this.#decide(server, { enabled: false }) }, "Don't run"),
        h("button", { type: "button", onclick: () => this.#decide(server, { trusted: true }) }, "Trust this command")));
  }

  /** Decide on a new server. Its card moves to the others, and takes the focus along. */
  async #decide({ name }, change) {
    this.decided = name;
    if (!(await this.actions.setServer(name, change))) this.decided = null;
  }

  #tools(server) {
    const used = server.tools.filter((tool) => tool.enabled).length;
    const all = server.tools.length;
    return h("details", {
      open: this.open.has(server.name),
      ontoggle: (event) => (event.target.open ? this.open.add(server.name) : this.open.delete(server.name)),
    },
    h("summary", { "data-key": `tools:${server.name}` }, used === all ? pluralize(all, "tool") : `${used} of ${pluralize(all, "tool")} on`),
    h("ul", { class: "tool-list" }, ...server.tools.map((tool) => this.#tool(server, tool))));
  }

  #tool(server, tool) {
    return h("li", {}, h("label", { class: "switch small" },
      h("input", {
        type: "checkbox", checked: tool.enabled, "data-key": `tool:${server.name}:${tool.name}`,
        onchange: (event) => this.actions.setTool(server.name, tool.name, event.target.checked),
      }),
      h("span", {}, h("code", {}, reveal(tool.name)), " ", h("span", { class: "dim" }, reveal(tool.description).slice(0, 300)))));
  }

  get isOpen() {
    return !this.el.hidden;
  }

  /** Show or hide the panel. */
  setOpen(open, servers) {
    this.el.hidden = !open;
    this.shown = null;
    this.update(servers);
    if (open) this.el.querySelector("button")?.focus();
  }
}

const emptyList = () =>
  h("div", { class: "empty" },
    h("p", { class: "empty-title" }, "No MCP servers configured."),
    h("p", {}, "Add one with ", h("code", {}, "newel mcp add NAME -- COMMAND"), ", or edit ", h("code", {}, "mcp_config.json"), "."));
