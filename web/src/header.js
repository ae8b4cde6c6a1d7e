// The page header: host, project, model, tools, new tabs, commands, colour theme.

import { fill, h, icon, iconButton, setText, setAttr } from "./dom.js";
import { plain, shortFolder } from "./format.js";
import { HostStatus } from "./host-status.js";
import { countServers } from "./mcp-panel.js";
import { nextTheme, theme } from "./theme.js";

const SANDBOX = {
  workspace: "Commands change the project only",
  "read-only": "Commands change nothing",
  partial: "Commands change the project only, its git and editor settings included; this machine cannot restrict them further",
  off: "Commands can change whatever you can",
};

const NOTIFICATIONS = {
  on: "Notifications are on: a run that ends or asks while Newel is not in front",
  off: "Notify me when a run ends or asks while Newel is not in front",
  blocked: "The browser blocks notifications for this address",
};

export class Header {
  constructor({ commands, columns }) {
    this.host = new HostStatus();
    this.path = h("bdi", { dir: "ltr" });
    this.project = h("span", { class: "project" }, this.path);
    this.modelName = h("span", { class: "model-name" });
    this.model = h("button", { type: "button", class: "quiet model", title: "Choose a model", "aria-label": "Model", hidden: true, onclick: commands.chooseModel }, this.modelName, icon("down"));
    this.modeName = h("span", {});
    this.mode = h("button", { type: "button", class: "quiet mode", "aria-label": "Agent mode", hidden: true, onclick: commands.chooseAgentMode }, this.modeName, icon("down"));
    this.counts = h("span", { class: "counts" });
    this.tools = h(
      "button",
      { type: "button", "aria-expanded": "false", "aria-controls": "tools-panel", onclick: commands.toggleTools },
      "Tools", icon("down"), this.counts,
    );
    this.fleets = h("button", { type: "button", hidden: true, onclick: commands.openFleets }, "Fleets");
    this.theme = iconButton("auto", "Colour theme", () => {
      nextTheme();
      this.showTheme();
    });
    this.notify = iconButton("bell", "Notifications", commands.toggleNotifications);
    this.permissions = iconButton("shield", "Permissions", commands.openPermissions, { class: "icon-button permissions-button" });
    this.flags = h("span", { class: "flags" });
    this.sandbox = h("span", {});
    this.menu = h("div", { class: "head-menu", id: "head-menu", role: "group", "aria-label": "More", hidden: true });
    this.menu.addEventListener("click", (event) => event.target.closest("button") && this.#leaveMenu(), { capture: true });
    this.menuCounts = h("span", { class: "counts" });
    this.menuWarning = h("span", { class: "bad-text", hidden: true }, icon("warn"), h("span", { class: "sr-only" }, "sandbox problem"));
    this.more = h("button", {
      type: "button", class: "quiet", "aria-expanded": "false", "aria-controls": "head-menu", onclick: () => this.#openMenu(this.menu.hidden),
    }, icon("more"), h("span", { class: "sr-only" }, "More "), this.menuWarning, this.menuCounts);
    this.el = h("div", { class: "head" });
    this.el.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("pointerdown", ({ target }) => this.menu.contains(target) || this.more.contains(target) || this.#openMenu(false));
    this.#arrange(commands, columns);
    this.showTheme();
  }

  /** Lay the parts out in a row; on a narrow page, those that are used less in a menu. */
  #arrange(commands, columns) {
    const adding = (words, label, onclick) =>
      h("button", { type: "button", class: "add", "aria-label": label, onclick }, icon("plus"), h("span", {}, words));
    const title = [h("h1", {}, "newel"), this.host.el, this.project, this.model];
    const modes = [this.mode, this.permissions, this.flags, this.sandbox];
    const spacer = h("span", { class: "spacer" });
    const shown = [columns.files, columns.review];
    const chat = adding("Chat", "New chat", commands.newChat);
    const rest = [
      adding("Agent", "New agent", commands.newAgent),
      iconButton("history", "Open conversation", commands.openSession),
      this.notify,
      iconButton("command", "Commands (Ctrl+K)", commands.openPalette, { "aria-keyshortcuts": "Control+K Meta+K" }),
      this.theme,
    ];
    const narrow = matchMedia("(max-width: 900px)");
    const arrange = () => {
      this.#openMenu(false);
      if (!narrow.matches) return fill(this.el, title, modes, spacer, shown, this.fleets, this.tools, chat, rest);
      fill(this.menu, modes, this.fleets, this.tools, rest);
      fill(this.el, title, spacer, shown, chat, this.more, this.menu);
    };
    narrow.addEventListener("change", arrange);
    arrange();
  }

  #openMenu(isOpen) {
    this.menu.hidden = !isOpen;
    setAttr(this.more, "aria-expanded", isOpen);
  }

  #key(event) {
    if (event.key !== "Escape" || this.menu.hidden) return;
    event.stopPropagation();
    this.#leaveMenu();
  }

  /** Close the menu, whose button gets the focus, also back from what a choice opens. */
  #leaveMenu() {
    this.#openMenu(false);
    this.more.focus();
  }

  focusTools() {
    (this.menu.contains(this.tools) ? this.more : this.tools).focus();
  }

  update({ hello, tab, servers, isToolsOpen, notifications }) {
    setAttr(this.notify, "aria-pressed", notifications === "on");
    setAttr(this.notify, "title", NOTIFICATIONS[notifications]);
    this.host.update(hello);
    this.fleets.hidden = !hello.fleets;
    setText(this.path, plain(hello.host?.folder ?? shortFolder(hello.project, hello.home)));
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
    this.model.hidden = this.mode.hidden = false;
    this.model.disabled = this.mode.disabled = tab?.kind !== "chat";
    const fixed = tab?.kind === "agent" && `approval: ${hello.approve}`; // a chat shows it where it is switched
    setText(this.flags, [fixed, hello.ephemeral && "not saved"].filter(Boolean).join(" · "));
    const problem = hello.sandbox === "partial" ? "partial sandbox" : "no sandbox";
    setText(this.sandbox, hello.sandboxProblem ? problem : `sandbox: ${hello.sandbox}`);
    this.menuWarning.hidden = !hello.sandboxProblem;
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
    fill(this.menuCounts, part(bad, "✗", "bad-text", "MCP servers broken"), part(waiting, "?", "warn-text", "MCP servers not trusted yet"));
  }

  /** Show the current colour theme. */
  showTheme() {
    const now = theme();
    this.theme.replaceChildren(icon(now));
    const label = { auto: "Colour theme: system", light: "Colour theme: light", dark: "Colour theme: dark" }[now];
    setAttr(this.theme, "aria-label", label);
    setAttr(this.theme, "title", label);
  }
}
