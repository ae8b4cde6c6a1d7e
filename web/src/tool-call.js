// A tool call: one line that unfolds in place to the complete input and output.

import { copyButton, fill, h, icon, setText, setAttr } from "./dom.js";
import { diffView } from "./diff.js";
import { formatCall, formatDuration, hasFailed, describeOutcome, lastLineOf, plain, reveal, readableOutput } from "./format.js";
import { sessionStore } from "./local-storage.js";
import { elapsedTimer } from "./elapsed-timer.js";
import { todoList } from "./todo.js";

const MAX_SHOWN = 40_000; // characters of a text that are shown at first
const MAX_REMEMBERED = 200; // unfolded calls that are remembered
const AT_BOTTOM = 24; // px

const unfolded = new Set(sessionStore.list("unfolded"));

function remember(id, open) {
  unfolded.delete(id);
  if (open) unfolded.add(id);
  sessionStore.set("unfolded", [...unfolded].slice(-MAX_REMEMBERED));
}

export class ToolCallView {
  /** `subagentView()` makes what shows the call's subagent, if it has one. */
  constructor(subagentView) {
    this.subagentView = subagentView;
    this.mark = h("span", { class: "mark", "aria-hidden": "true" });
    this.words = h("span", { class: "call-words" });
    this.how = h("span", { class: "sr-only" });
    this.aside = h("span", { class: "aside" });
    this.head = h(
      "button",
      { type: "button", class: "call-head", "aria-expanded": "false", onclick: () => this.#toggle() },
      this.mark, this.words, this.how, this.aside, icon("right"),
    );
    this.body = h("div", { class: "call-body", hidden: true });
    this.el = h("div", { class: "call" }, this.head, this.body);
    this.call = null;
    this.state = null;
  }

  /** `part`: {id, name, arguments} or, while it is being written, {name, text}; `state` as in transcript.js, or undefined. */
  update(part, state) {
    if (part === this.call && state === this.state) return;
    const isNew = part.id && part.id !== this.call?.id;
    this.call = part;
    this.state = state;
    setText(this.words, part.id ? formatCall(part.name, part.arguments) : formatCall(part.name, partial(part.text)));
    const how = !part.id ? "writing" : phase(state);
    setAttr(this.el, "data-phase", how);
    setText(this.how, PHASE_LABELS[how]);
    this.#aside(how);
    this.#lastLine();
    if (isNew && !this.body.hidden) remember(part.id, true); // unfolded while it was being written, without an id
    if (isNew && unfolded.has(part.id)) this.#open(true);
    else if (!this.body.hidden) this.#body();
  }

  #aside(how) {
    if (how === "running") fill(this.aside, this.state.since ? elapsedTimer(this.state.since) : "running");
    else if (!this.state?.result) setText(this.aside, "");
    else {
      const { result } = this.state;
      const words = [describeOutcome(this.call.name, result), result.duration && formatDuration(result.duration)];
      setText(this.aside, words.filter(Boolean).join(" · "));
    }
  }

  /** What a subagent does now stands below its call. */
  #lastLine() {
    if (!this.body.hidden || !this.state?.working || !this.state.nested) {
      this.last?.remove();
      return;
    }
    this.last ??= h("div", { class: "call-last", "aria-live": "off" });
    if (!this.last.isConnected) this.head.after(this.last);
    setText(this.last, lastLineOf(this.state.output) || "Waiting for the model…");
  }

  #toggle() {
    const open = this.body.hidden;
    this.#open(open);
    this.#lastLine();
    if (this.call?.id) remember(this.call.id, open);
  }

  #open(open) {
    this.body.hidden = !open;
    setAttr(this.head, "aria-expanded", open);
    if (open) this.#body();
    else this.body.replaceChildren();
    this.shown = null;
  }

  #body() {
    const { result } = this.state ?? {};
    if (this.state?.nested || result?.details.session) {
      this.#subagentBody(result);
      return;
    }
    if (this.state?.working && this.output && this.shown === this.call) {
      this.#stream(this.state.output);
      return;
    }
    this.shown = this.call;
    this.output = null;
    const { diff } = result?.details ?? {};
    const whole = [this.#input(), result ? resultView(this.call.name, result) : this.#running()];
    if (typeof diff !== "string" || !diff) fill(this.body, ...whole);
    else fill(this.body, diffView(diff), h("details", {}, h("summary", {}, "Input and output"), ...whole));
  }

  /** What is there stays: the reader may have unfolded a call in it. */
  #subagentBody(result) {
    this.subagent ??= this.subagentView();
    this.subagent.update(this.call, this.state);
    const { el } = this.subagent;
    if (el.parentNode !== this.body) fill(this.body, section("Task", reveal(String(this.call.arguments.prompt ?? ""))), el);
    if (result && !el.nextSibling) el.after(section("Answer", plain(result.output)));
    if (result) el.nextSibling.hidden = this.subagent.hasSaid(result.output);
  }

  #input() {
    const { name, arguments: args } = this.call;
    if (!args) return section("Input", reveal(this.call.text ?? ""));
    const only = Object.keys(args).length === 1 && Object.values(args)[0];
    const text = typeof only === "string" ? only : JSON.stringify(args, null, 2);
    const problem = this.call.problem && h("p", { class: "warn-text" }, this.call.problem);
    return [section(name === "bash" && only ? "Command" : "Input", reveal(text)), problem];
  }

  #running() {
    this.output = h("pre", { class: "output", tabindex: "0", "aria-label": "Output so far" });
    this.#stream(this.state?.output ?? "");
    return h("div", { class: "section" }, h("div", { class: "section-head" }, "Output so far"), this.output);
  }

  #stream(text) {
    const { scrollHeight, scrollTop, clientHeight } = this.output;
    const follows = scrollHeight - scrollTop - clientHeight < AT_BOTTOM;
    setText(this.output, plain(text) || "No output yet.");
    if (follows) this.output.scrollTop = this.output.scrollHeight;
  }
}

const PHASE_LABELS = {
  writing: "being written",
  waiting: "not run yet",
  running: "running",
  failed: "failed",
  done: "done",
};

function phase(state) {
  if (state?.working) return "running";
  if (!state?.result) return "waiting";
  return hasFailed(state.result) ? "failed" : "done";
}

/** The readable arguments of an incomplete call. */
function partial(text) {
  const pairs = [...text.matchAll(/"(\w+)"\s*:\s*"((?:[^"\\]|\\.)*)/g)].slice(0, 4);
  return Object.fromEntries(pairs.map(([, key, value]) => [key, value.replace(/\\n/g, "\n").replace(/\\(.)/g, "$1")]));
}

const resultView = (name, result) => [
  name === "todo" && !result.isError ? todoList(result.details.items ?? []) : section("Output", plain(readableOutput(name, result.output))),
  ...result.images.map(imageView),
];

const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/;

export const imageView = ({ data, mimeType }) =>
  IMAGE.test(mimeType)
    ? h("img", { class: "picture", src: `data:${mimeType};base64,${data}`, alt: `Image, ${mimeType}` })
    : h("p", { class: "dim" }, `Image format not supported: ${plain(mimeType)}`);

/** A section with a text; of a long one the beginning, with a button that shows it all. */
export function section(name, text) {
  const pre = h("pre", { class: "output", tabindex: "0", "aria-label": name }, text.slice(0, MAX_SHOWN) || "(empty)");
  const more = text.length > MAX_SHOWN &&
    h("button", {
      type: "button",
      class: "quiet",
      onclick: (event) => {
        pre.textContent = text;
        event.currentTarget.remove();
      },
    }, `Show all ${text.length.toLocaleString("en")} characters`);
  const head = h("div", { class: "section-head" }, h("span", {}, name), copyButton(() => text, `Copy ${name.toLowerCase()}`));
  return h("div", { class: "section" }, head, pre, more);
}
