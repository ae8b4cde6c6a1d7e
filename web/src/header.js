// The page header: host, project, model, tools, new tabs, commands, colour theme.

import { fill, h, icon, iconButton, setText, setAttr } from "./dom.js";
import { plain } from "./format.js";
import { HostStatus } from "./host-status.js";
import { countServers } from "./mcp-panel.js";
import { nextTheme, theme } from "./theme.js";

const SANDBOX = {
  workspace: "Commands change the project only",
  "read-only": "Commands change nothing",
  partial: "Commands change the project only, its settings of git and editors too; this machine can hold no more",
  off: "Commands can change whatever you can",
};

export class Header {
  constructor({ commands, columns }) {
    this.host = new HostStatus();
    this.project = h("span", { class: "project" });
    this.modelName = h("span", { class: "model-name" });
    this.model = h("button", { type: "button", class: "quiet model", title: "Choose a model", "aria-label": "Model", onclick: commands.chooseModel }, this.modelName, icon("down"));
    this.modeName = h("span", {});
    this.mode = h("button", { type: "button", class: "quiet mode", "aria-label": "Agent mode", onclick: commands.chooseAgentMode }, this.modeName, icon("down"));
    this.counts = h("span", { class: "counts" });
    this.tools = h(
      "button",
      { type: "button", "aria-expanded": "false", "aria-controls": "tools-panel", onclick: commands.toggleTools },
      "Tools", icon("down"), this.counts,
    );
    this.theme = iconButton("auto", "Color theme", () => {
      nextTheme();
      this.showTheme();
    });
    this.approve = h("span", {});
    this.permissions = h("button", { type: "button", class: "quiet approve", title: "Permissions", "aria-label": "Permissions", onclick: commands.openPermissions }, this.approve, icon("down"));
    this.flags = h("span", { class: "flags" });
    this.sandbox = h("span", {});
    const adding = (words, label, onclick) =>
      h("button", { type: "button", "aria-label": label, onclick }, icon("plus"), h("span", {}, words));
    this.el = h("div", { class: "head" },
      h("h1", {}, "newel"), this.host.el, this.project, this.model, this.mode, this.permissions, this.flags, this.sandbox,
      h("span", { class: "spacer" }),
      columns.files, columns.review,
      this.tools,
      adding("Chat", "New chat", commands.newChat),
      adding("Agent", "New agent", commands.newAgent),
      iconButton("history", "Open conversation", commands.openSession),
      iconButton("command", "Commands (Ctrl+K)", commands.openPalette, { "aria-keyshortcuts": "Control+K Meta+K" }),
      this.theme);
    this.showTheme();
  }

  update({ hello, tab, servers, isToolsOpen }) {
    this.host.update(hello);
    setText(this.project, plain(hello.host?.folder ?? hello.project));
    setAttr(this.project, "title", hello.project);
    const model = plain(tab?.model ?? hello.model) || "no model";
    setText(this.modelName, model);
    const where = hello.where ? ` ${plain(hello.where)}` : "";
    setAttr(this.model, "aria-label", `Model: ${model}${where}`);
    setAttr(this.model, "title", `Choose a model${where}`);
    const mode = tab?.agentMode ?? hello.agentMode;
    setText(this.modeName, mode);
    setAttr(this.mode, "aria-label", `Agent mode: ${mode}`);
    setAttr(this.mode, "title", tab?.kind === "agent" ? "An agent's mode is part of its contract" : "Choose which model works");
    this.model.disabled = this.mode.disabled = tab?.kind !== "chat";
    const approve = tab?.approve ?? hello.approve;
    setText(this.approve, approve);
    setAttr(this.permissions, "aria-label", `Permissions, approval mode: ${approve}`);
    setText(this.flags, hello.ephemeral ? "not saved" : "");
    const problem = hello.sandbox === "partial" ? "partial sandbox" : "no sandbox";
    setText(this.sandbox, hello.sandboxProblem ? problem : `sandbox: ${hello.sandbox}`);
    setAttr(this.sandbox, "title", plain(hello.sandboxProblem) || SANDBOX[hello.sandbox]);
    setAttr(this.sandbox, "class", hello.sandboxProblem ? "bad-text sandbox-problem" : "flags");
    setAttr(this.tools, "aria-expanded", isToolsOpen);
    if (servers !== this.servers) this.#counts(countServers(servers));
    this.servers = servers;
  }

  #counts({ good, bad, waiting, starting }) {
    const part = (number, sign, kind, words) =>
      number > 0 && h("span", { class: kind }, `${number}${sign}`, h("span", { class: "sr-only" }, ` ${words} `));
    fill(this.counts, part(good, "✓", "ok-text", "active"), part(bad, "✗", "bad-text", "broken"),
      part(waiting, "?", "warn-text", "not trusted yet"), part(starting, "…", "dim", "starting"));
  }

  /** Show the current colour theme. */
  showTheme() {
    const now = theme();
    this.theme.replaceChildren(icon(now));
    const label = { auto: "Color theme: system", light: "Color theme: light", dark: "Color theme: dark" }[now];
    setAttr(this.theme, "aria-label", label);
    setAttr(this.theme, "title", label);
  }
}
