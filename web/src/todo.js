// The model's todo list: above the message box while a run works on it, and in the calls that set it.

import { fill, h, icon, setAttr, setText } from "./dom.js";
import { describeProgress, reveal } from "./format.js";
import { localStore } from "./local-storage.js";

const LABELS = { done: "Done: ", in_progress: "In progress: ", pending: "" };

const itemView = ({ text, status }) =>
  h("li", { "data-status": status in LABELS ? status : "pending", "aria-current": status === "in_progress" && "step" },
    h("span", { class: "todo-mark", "aria-hidden": "true" }, status === "done" && icon("check")),
    h("span", {}, h("span", { class: "sr-only" }, LABELS[status] ?? ""), reveal(String(text))));

export const todoList = (items) => h("ol", { class: "todo-list" }, ...items.map(itemView));

/** The list as it is now, while a run works on it. It can be folded to its current step. */
export class TodoPanel {
  constructor() {
    this.now = h("span", { class: "todo-now" });
    this.count = h("span", { class: "aside" });
    this.head = h("button", { type: "button", class: "todo-head", onclick: () => this.#toggle() }, icon("right"), this.now, this.count);
    this.step = ""; // the current one
    this.list = h("div", { class: "todo-items", role: "group", "aria-label": "Steps", tabindex: "0" });
    this.el = h("section", { class: "todo", "aria-label": "Todo list", hidden: true }, this.head, this.list);
    this.#open(localStore.get("todo") !== "closed");
  }

  update(items, { busy }) {
    const open = items.find((item) => item.status === "in_progress") ?? items.find((item) => item.status !== "done");
    this.el.hidden = !busy || !open;
    if (items === this.items) return;
    this.items = items;
    this.step = open ? reveal(String(open.text)) : "";
    this.#name();
    setText(this.count, describeProgress(items));
    fill(this.list, todoList(items));
    this.list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  #toggle() {
    this.#open(this.list.hidden);
    localStore.set("todo", this.list.hidden ? "closed" : null);
  }

  #open(open) {
    this.list.hidden = !open;
    setAttr(this.head, "aria-expanded", open);
    this.#name();
  }

  #name() {
    setText(this.now, this.list.hidden ? this.step : "Todo list");
  }
}
