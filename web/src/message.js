// The views of transcript entries: {el, update(item, transcript)}.

import { copyButton, fill, h, icon, iconButton, onceClicked, setAttr } from "./dom.js";
import { elapsedTimer } from "./elapsed-timer.js";
import { formatDuration, plain, pluralize, reveal, revealPath, toSentence, formatBytes, describeRetry } from "./format.js";
import { localStore } from "./local-storage.js";
import { StreamingMarkdown } from "./streaming-markdown.js";
import { SubagentView } from "./subagent.js";
import { versionsOf } from "./transcript.js";
import { imageView, section, ToolCallView } from "./tool-call.js";

// -- the assistant ----------------------------------------------------------------------------------

/** The model's reasoning, in a foldable section. */
class ReasoningView {
  constructor({ open }) {
    this.label = h("span", {}, "Thinking");
    this.head = h(
      "button",
      { type: "button", class: "reasoning-head", onclick: () => this.#toggle() },
      icon("right"), this.label,
    );
    this.text = h("div", { class: "reasoning-text", tabindex: "0", role: "region", "aria-label": "Reasoning" });
    this.el = h("section", { class: "reasoning", "aria-label": "Reasoning panel" }, this.head, this.text);
    this.#open(open && localStore.get("reasoning") !== "closed");
  }

  update(part, { live, since }) {
    if (this.live !== live) {
      fill(this.label, live ? ["Thinking ", elapsedTimer(since)] : "Reasoning");
      this.live = live;
    }
    if (part.text === this.shown) return;
    const { scrollHeight, scrollTop, clientHeight } = this.text;
    const follows = live && scrollHeight - scrollTop - clientHeight < 24;
    if (this.shown && part.text.startsWith(this.shown) && this.text.firstChild) {
      this.text.firstChild.appendData(plain(part.text.slice(this.shown.length)));
    } else this.text.textContent = plain(part.text);
    this.shown = part.text;
    if (follows) this.text.scrollTop = this.text.scrollHeight;
  }

  #toggle() {
    this.#open(this.text.hidden);
    localStore.set("reasoning", this.text.hidden ? "closed" : null);
  }

  #open(open) {
    this.text.hidden = !open;
    setAttr(this.head, "aria-expanded", open);
  }
}

/** The parts that are shown: reasoning without text is only a signature. */
const partsOf = (message) =>
  message.content.filter((part) => part.type !== "thinking" || part.thinking).map((part) => {
    if (part.type === "thinking") return { type: "thinking", text: part.thinking };
    return part.type === "toolCall" ? { ...part, type: "call" } : part;
  });

export class AssistantView {
  /** `loadSubagent(call, session)` loads what the subagent of a call did; without it, that is known already. */
  constructor({ loadSubagent = null } = {}) {
    this.loadSubagent = loadSubagent;
    this.body = h("div", { class: "said" });
    this.end = h("p", { class: "cause", hidden: true });
    this.actions = h("div", { class: "actions" }, copyButton(() => this.#text(), "Copy message"));
    this.el = h("article", { class: "entry assistant", "aria-label": "Assistant" }, this.body, this.end, this.actions);
    this.views = [];
    this.wasLive = false;
  }

  update(item, transcript) {
    const live = item.kind === "live";
    this.wasLive ||= live;
    if (this.item !== item) {
      this.item = item;
      this.parts = live ? item.parts : partsOf(item.message);
      this.settled = false;
    }
    if (!this.settled) {
      this.settled = !live;
      this.#parts(live);
      if (!live) this.#end(item.message);
    }
    this.parts.forEach((part, index) => {
      if (part.type === "call") this.views[index].view.update(part, part.id ? transcript.calls[part.id] : undefined);
    });
  }

  #parts(live) {
    this.parts.forEach((part, index) => {
      if (this.views[index]?.type !== part.type) this.#replace(index, part.type);
      const { view } = this.views[index];
      const grows = live && index === this.parts.length - 1;
      if (part.type === "text") view.show(part.text, grows);
      else if (part.type === "thinking") view.update(part, { live: grows, since: this.item.at });
    });
    for (const { view } of this.views.splice(this.parts.length)) view.el.remove();
    this.actions.hidden = live || !this.parts.some((part) => part.type === "text" && part.text.trim());
  }

  #replace(index, type) {
    for (const { view } of this.views.splice(index)) view.el.remove();
    const make = { text: () => new StreamingMarkdown(), call: () => this.#call(), thinking: () => new ReasoningView({ open: this.wasLive }) };
    const view = make[type]();
    this.views[index] = { type, view };
    this.body.append(view.el);
  }

  #call() {
    const makeView = (item) => (item.kind === "assistant" ? new AssistantView() : new NoteView());
    return new ToolCallView(() => new SubagentView({ makeView, load: this.loadSubagent }));
  }

  #end({ stopReason = "stop", errorMessage }) {
    const isEmpty = !this.parts.some((part) => part.type === "call" || part.text?.trim());
    const causes = { error: toSentence(errorMessage || "The request failed."), length: CUT_OFF_MESSAGE, aborted: "Stopped." };
    const words = causes[stopReason] ?? (isEmpty && EMPTY_MESSAGE);
    this.end.hidden = !words;
    setAttr(this.end, "class", stopReason === "error" ? "cause bad-text" : "cause");
    fill(this.end, words && icon(stopReason === "error" ? "warn" : "stop"), words && h("span", {}, plain(words)));
  }

  #text() {
    return this.parts.filter((part) => part.type === "text").map((part) => part.text).join("\n\n");
  }
}

const CUT_OFF_MESSAGE = "The answer was cut off at the longest output that the model may write.";
const EMPTY_MESSAGE = "The model returned an empty answer. Try again, or choose another model.";

// -- the user ---------------------------------------------------------------------------------------

const BLOCKED_PROMPT = "[A hook blocked this prompt, so it was not sent.]"; // hooks/hooked_run.py

/** Whether this stands for a prompt that a hook has blocked: its own words are nowhere. */
export const isBlocked = (message) => textOf(message) === BLOCKED_PROMPT;

export const textOf = ({ content }) =>
  typeof content === "string" ? content : content.filter((part) => part.type === "text").map((part) => part.text).join("");

const imagesOf = ({ content }) => (typeof content === "string" ? [] : content.filter((part) => part.type === "image"));

const attachment = (file) =>
  file.type === "image"
    ? imageView({ data: file.preview ?? file.content, mimeType: file.mimeType })
    : h("span", { class: "chip" }, icon("clip"), `${revealPath(file.fileName)} · ${formatBytes(file.size)}`);

const LONG = { lines: 20, characters: 4_000 }; // of a message; the user has it all, and wants to see what followed

/** The text of a message; of a long one the beginning, with a button that shows the rest. */
class FoldedText {
  constructor() {
    this.text = h("div", { class: "user-text", dir: "auto" });
    this.button = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#fold(!this.isFolded) });
    this.el = h("div", { class: "folded-text" }, this.text, this.button);
  }

  update(text) {
    this.text.textContent = text;
    const lines = text.split("\n").length;
    this.button.hidden = lines <= LONG.lines && text.length <= LONG.characters;
    this.size = lines > LONG.lines ? pluralize(lines, "line") : pluralize(text.length, "character");
    this.#fold(!this.button.hidden);
  }

  #fold(isFolded) {
    this.isFolded = isFolded;
    this.text.classList.toggle("is-folded", isFolded);
    this.button.textContent = this.button.hidden ? "" : isFolded ? `Show all ${this.size}` : "Show less";
    setAttr(this.button, "aria-expanded", String(!isFolded));
    if (!isFolded || !this.el.isConnected) return;
    this.text.scrollTop = 0;
    if (document.activeElement === this.button) this.el.scrollIntoView({ block: "nearest" });
  }
}

export class UserView {
  /**
   * `edit(item, text)` resends an edited message, `goBack(item)` goes to before it, `show(id)` to another version of it;
   * `mayEdit(text)` returns whether these are possible now, and reports why not. `drafts` has the texts of unsent edits: get(id), set(id, text).
   */
  constructor({ edit, goBack, show, mayEdit, drafts }) {
    Object.assign(this, { edit, goBack, show, mayEdit, drafts });
    this.body = new FoldedText();
    this.files = h("div", { class: "files" });
    const change = iconButton("edit", "Edit message", () => this.beginEdit());
    const back = iconButton("history", "Go back to before this message", () => this.mayEdit() && this.goBack(this.item));
    this.actions = h("div", { class: "actions" }, change, back, copyButton(() => this.text, "Copy message"));
    this.versions = h("span", { class: "versions", hidden: true });
    this.el = h("article", { class: "entry user", "aria-label": "You" }, h("span", { class: "who" }, "You", this.versions), this.body.el, this.files, this.actions);
  }

  update(item, transcript) {
    const versions = versionsOf(transcript, item.id);
    if (versions !== this.shownVersions) this.#versions(versions, item.id);
    if (item === this.item) return;
    const draft = this.item ? null : this.drafts.get(item.id);
    this.item = item;
    this.text = textOf(item.message);
    if (draft !== null) this.#edit(draft);
    this.body.update(plain(this.text));
    fill(this.files, ...imagesOf(item.message).map(imageView), ...(item.message.attachments ?? []).map(attachment));
  }

  /** "‹ 2/3 ›" between the versions of an edited message. */
  #versions(ids, id) {
    this.shownVersions = ids;
    this.versions.hidden = ids.length < 2;
    if (ids.length < 2) return fill(this.versions);
    const at = ids.indexOf(id);
    const step = (sign, label, to) =>
      iconButton(sign, label, onceClicked(() => this.mayEdit() && this.show(to)), { class: "icon-button version", disabled: to === undefined });
    fill(this.versions, step("left", "Earlier version", ids[at - 1]), `${at + 1}/${ids.length}`, step("right", "Later version", ids[at + 1]));
  }

  /** Edit the message in place; the same as its button. */
  beginEdit() {
    this.#edit().focus();
  }

  /** Show the box to edit the message, and return it. */
  #edit(text = this.text) {
    if (this.area?.isConnected) return this.area;
    const area = h("textarea", {
      class: "edit-area", "aria-label": "Edit your message", value: text, rows: "3", dir: "auto", oninput: () => this.drafts.set(this.item.id, area.value),
    });
    const back = () => {
      this.drafts.set(this.item.id, null);
      form.replaceWith(this.body.el);
      this.actions.hidden = false;
      this.actions.firstChild.focus();
    };
    const send = () => {
      if (!this.mayEdit(area.value)) return; // what was typed stays
      back(); // first: it moves the focus, which would scroll away from the answer
      if (area.value.trim()) this.edit(this.item, area.value);
    };
    const form = h(
      "form",
      {
        class: "edit-form",
        onsubmit: (event) => {
          event.preventDefault();
          send();
        },
        onkeydown: (event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            back();
          } else if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
            event.preventDefault();
            send();
          }
        },
      },
      area,
      h("p", { class: "dim" }, "Enter to resend · Shift+Enter for a new line. The earlier version and what followed it are kept."),
      h("div", { class: "row" },
        h("button", { type: "submit", class: "primary" }, "Resend"),
        h("button", { type: "button", onclick: back }, "Cancel")),
    );
    this.body.el.replaceWith(form);
    this.actions.hidden = true;
    this.area = area;
    return area;
  }
}

/** Messages after the end of the conversation, which went back. */
export class KeptView {
  /** `actions`: bringBack(id) of a message. */
  constructor(actions) {
    this.actions = actions;
    this.el = h("div", { class: "entry told info", role: "group", "aria-label": "Later messages" });
  }

  update({ ids }) {
    if (ids === this.ids) return;
    this.ids = ids;
    const bring = h("button", { type: "button", onclick: onceClicked(() => this.actions.bringBack(this.ids.at(-1))) }, "Bring back");
    fill(this.el, icon("history"), h("div", { class: "told-words row" }, "The conversation went back. What was said later is kept.", bring));
  }
}

const PENDING_STATES = { sending: "· sending", queued: "· sending", failed: "· not sent" };

/** A message that is not part of the conversation yet. */
export class PendingView {
  /** `actions`: resend(item), discard(item). */
  constructor(actions) {
    this.actions = actions;
    this.state = h("span", { class: "aside" });
    this.body = new FoldedText();
    this.row = h("div", { class: "row" });
    this.el = h("article", { class: "entry user pending", "aria-label": "You" }, h("span", { class: "who" }, "You ", this.state), this.body.el, this.row);
  }

  update(item) {
    this.item = item;
    const key = JSON.stringify([item.text, item.state]);
    if (key === this.shown) return; // a button that is replaced while it is pressed gets no click
    this.shown = key;
    this.body.update(plain(item.text));
    setAttr(this.el, "data-state", item.state);
    this.state.textContent = PENDING_STATES[item.state];
    const button = (words, action) => h("button", { type: "button", onclick: onceClicked(() => this.actions[action](this.item)) }, words);
    fill(this.row, item.state === "failed" && [button("Retry", "resend"), button("Discard", "discard")]);
  }
}

// -- what is told beside the messages -----------------------------------------------------------------

const line = (kind, picture, ...children) =>
  h("div", { class: `entry told ${kind}` }, icon(picture), h("div", { class: "told-words" }, ...children));

const ENTRIES = {
  notice: ({ level, text }) => line(level === "warning" ? "warn" : "info", level === "warning" ? "warn" : "info", plain(text)),
  error: ({ text }) => line("bad", "warn", toSentence(text)),
  end: ({ reason, text }) => line(reason === "error" ? "bad" : "info", reason === "error" ? "close" : "stop", toSentence(text)),
  retry: (tries) => line(tries.outcome === null ? "warn" : "info", "again", describeRetry(tries)),
  verdict: ({ satisfied, why, missing }) =>
    line(
      satisfied ? "ok" : "info",
      satisfied ? "check" : "question",
      h("strong", {}, satisfied ? "The contract is fulfilled: " : "Not yet fulfilled: "),
      plain(why),
      missing && h("div", { class: "dim" }, `Missing: ${plain(missing)}`),
    ),
  acceptance({ command, passed, output, duration: took }) {
    if (passed === null) return line("info", "command", h("strong", {}, "Running acceptance command: "), h("code", {}, reveal(command)));
    const words = passed ? "Acceptance command passed: " : "Acceptance command failed: ";
    return line(
      passed ? "ok" : "bad",
      passed ? "check" : "close",
      h("strong", {}, words), h("code", {}, reveal(command)), h("span", { class: "dim" }, ` ${formatDuration(took ?? 0)}`),
      output.trim() && h("details", { open: !passed }, h("summary", {}, "Output"), section("Output", plain(output))),
    );
  },
  begun: () => line("info", "edit", "Working on the contract."),
  newel: ({ message }) =>
    h("article", { class: "entry user", "aria-label": "Newel" },
      h("span", { class: "who" }, "Newel"), h("div", { class: "user-text", dir: "auto" }, plain(textOf(message)))),
  custom({ message }) {
    if (message.name !== "compaction") return h("div", { hidden: true });
    return line(
      "info", "history", "Earlier messages were summarized for the model.",
      h("details", {}, h("summary", {}, "Summary"), section("Summary", plain(String(message.data?.summary ?? "")))),
    );
  },
};

export class NoteView {
  constructor() {
    this.el = h("div", {});
  }

  update(item) {
    if (item === this.item) return;
    this.item = item;
    const next = ENTRIES[item.kind](item);
    this.el.replaceWith(next);
    this.el = next;
  }
}

/** A message to an agent. The contract is already shown above (`shown()`), so it is not repeated. */
export class ContractView extends NoteView {
  constructor(shown) {
    super();
    this.shown = shown;
  }

  update({ id, message }) {
    const kind = textOf(message) === this.shown() ? "begun" : "newel";
    if (this.item?.kind !== kind) super.update({ id, kind, message });
  }
}
