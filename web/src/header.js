// The page's head: project, model, tools, new tabs, palette, colours.

import { fill, h, icon, iconButton, say, set } from "./dom.js";
import { plain } from "./format.js";
import { HostSign } from "./host-status.js";
import { counts } from "./mcp-panel.js";
import { nextTheme, theme } from "./theme.js";

export class Header {
  constructor({ actions, columns }) {
    this.host = new HostSign();
    this.project = h("span", { class: "project" });
    this.modelName = h("span", { class: "model-name" });
    this.model = h("button", { type: "button", class: "quiet model", title: "Choose a model", onclick: actions.chooseModel }, this.modelName, icon("down"));
    this.counts = h("span", { class: "counts" });
    this.tools = h(
      "button",
      { type: "button", "aria-expanded": "false", "aria-controls": "tools-panel", onclick: actions.toggleTools },
      "Tools", icon("down"), this.counts,
    );
    this.theme = iconButton("auto", "Colours", () => {
      nextTheme();
      this.showTheme();
    });
    this.flags = h("span", { class: "flags" });
    const adding = (words, label, onclick) =>
      h("button", { type: "button", "aria-label": label, onclick }, icon("plus"), h("span", {}, words));
    this.el = h("div", { class: "head" },
      h("h1", {}, "newel"), this.host.el, this.project, this.model, this.flags,
      h("span", { class: "spacer" }),
      columns.files, columns.review,
      this.tools,
      adding("Chat", "New chat", actions.newChat),
      adding("Agent", "New agent", actions.newAgent),
      iconButton("history", "Earlier conversations", actions.openSession),
      iconButton("command", "Commands (Ctrl+K)", actions.palette, { "aria-keyshortcuts": "Control+K Meta+K" }),
      this.theme);
    this.showTheme();
  }

  update({ hello, tab, servers, toolsOpen }) {
    this.host.update(hello);
    say(this.project, plain(hello.host?.folder ?? hello.project));
    set(this.project, "title", hello.project);
    const model = plain(tab?.model ?? hello.model) || "no model";
    say(this.modelName, model);
    const where = hello.where ? ` ${plain(hello.where)}` : "";
    set(this.model, "aria-label", `Model: ${model}${where}`);
    set(this.model, "title", `Choose a model${where}`);
    this.model.disabled = tab?.kind !== "chat";
    say(this.flags, [hello.approve, hello.ephemeral && "not kept"].filter(Boolean).join(" · "));
    set(this.flags, "title", `What may run unasked: ${hello.approve}`);
    set(this.tools, "aria-expanded", toolsOpen);
    if (servers !== this.servers) this.#counts(counts(servers));
    this.servers = servers;
  }

  #counts({ good, bad, waiting, starting }) {
    const part = (number, sign, kind, words) =>
      number > 0 && h("span", { class: kind }, `${number}${sign}`, h("span", { class: "sr-only" }, ` ${words} `));
    fill(this.counts, part(good, "✓", "ok-text", "active"), part(bad, "✗", "bad-text", "broken"),
      part(waiting, "?", "warn-text", "not trusted yet"), part(starting, "…", "dim", "starting"));
  }

  /** Show which colours are switched on. */
  showTheme() {
    const now = theme();
    this.theme.replaceChildren(icon(now));
    const label = { auto: "Colours: as the system", light: "Colours: light", dark: "Colours: dark" }[now];
    set(this.theme, "aria-label", label);
    set(this.theme, "title", label);
  }
}
