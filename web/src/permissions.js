// The dialog of permissions: the rules and servers of the project, and what answers have allowed, to be revoked.

import { openDialog, dialogHead } from "./dialog.js";
import { fill, h, icon, setText } from "./dom.js";
import { formatTime, plain, reveal } from "./format.js";

export class PermissionsDialog {
  #changes = null; // the count of changes that the list shows; null while the dialog is closed

  /** `actions.permissions()` and `actions.revokePermission(id)` resolve to {rows, problems}. */
  constructor({ actions }) {
    Object.assign(this, { actions });
  }

  /** `changes` counts what was reported. */
  async open({ changes }) {
    this.#changes = changes;
    this.list = h("div", { class: "permissions-list", tabindex: "0", role: "group", "aria-label": "Rules and servers" }, h("p", { class: "dim" }, "Loading…"));
    this.problem = h("p", { class: "problem bad-text", role: "alert" });
    this.said = h("div", { class: "sr-only", role: "status" });
    void this.#load(this.actions.permissions());
    await openDialog({
      label: "Permissions",
      kind: "permissions",
      build: (close) => [
        dialogHead("Permissions", close),
        h("p", { class: "dim" }, "What is denied never runs, in any mode."),
        this.problem, this.list, this.said,
      ],
    });
    this.#changes = null;
  }

  /** Load the list again if something has changed, here or elsewhere. */
  update(changes) {
    if (this.#changes === null || changes === this.#changes) return;
    this.#changes = changes;
    void this.#load(this.actions.permissions());
  }

  async #load(loading) {
    try {
      this.#show(await loading);
    } catch (error) {
      fill(this.problem, icon("warn"), h("span", {}, plain(error.message)));
    }
  }

  #show({ rows, problems }) {
    const focused = document.activeElement?.dataset.revokes;
    const before = [...this.list.querySelectorAll("[data-revokes]")].map((each) => each.dataset.revokes);
    const kept = rows.filter((row) => row.id);
    const of = (where) => rows.filter((row) => !row.id && row.where === where);
    fill(this.list,
      ...problems.map((words) => h("p", { class: "problem bad-text" }, icon("warn"), h("span", {}, plain(words)))),
      section("Allowed by your answers, in this project", kept.map((row) => this.#keptRow(row)),
        "Nothing. Questions offer “Always allow in this project”."),
      section("Your settings", of("config.toml").map(writtenRow), "No rules.", "config.toml", "as it was when Newel started"),
      section("The project", of(".newel/permissions.toml").map(writtenRow), "No rules.", ".newel/permissions.toml"));
    if (focused) this.#refocus(focused, before);
  }

  /** Focus the button that was focused, or else the next one, or the list. */
  #refocus(id, before) {
    const order = [id, ...before.slice(before.indexOf(id) + 1), ...before.slice(0, before.indexOf(id)).reverse()];
    const buttons = order.map((each) => this.list.querySelector(`[data-revokes="${each}"]`));
    (buttons.find(Boolean) ?? this.list).focus();
  }

  #keptRow(row) {
    const name = nameOf(row);
    const since = row.since && h("span", { class: "dim" }, `since ${formatTime(Date.parse(row.since))}`);
    const button = h("button", {
      type: "button", "data-revokes": row.id, "aria-label": `Revoke ${name}`,
      onclick: () => this.#revoke(row, name),
    }, "Revoke");
    return h("li", {}, label(row), since, h("span", { class: "spacer" }), button);
  }

  async #revoke(row, name) {
    fill(this.problem);
    await this.#load(this.actions.revokePermission(row.id).then((page) => {
      setText(this.said, `Revoked: ${name}. Newel asks again.`);
      return page;
    }));
  }
}

const writtenRow = (each) => h("li", {}, h("span", { class: `effect ${each.effect}` }, each.effect), label(each));

const nameOf = ({ kind, rule }) => `${kind === "server" ? "server " : ""}${reveal(rule)}`;

const label = ({ kind, rule }) =>
  h("span", { class: "permission" }, kind === "server" && "server ", h("code", {}, reveal(rule)));

function section(title, items, empty, file, note) {
  return h("section", { "aria-label": title },
    h("h3", {}, title, file && h("span", { class: "dim" }, " ", h("code", {}, file), note && ` ${note}`)),
    items.length > 0 ? h("ul", {}, ...items) : h("p", { class: "dim" }, empty));
}
