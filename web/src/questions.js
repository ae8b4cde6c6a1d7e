// Questions for the user, with the exact action they are about. The default answer is no.

import { fill, h, icon, isFocusLost, onceClicked, setAttr } from "./dom.js";
import { dictionary } from "./dictionary.js";
import { wholeDiffView } from "./diff.js";
import { truncate, reveal } from "./format.js";

export class Questions {
  /** `answer(question, answer)` resolves when the server has accepted it, `leave()` takes the focus of an answered question. */
  constructor({ answer, leave }) {
    Object.assign(this, { answer, leave });
    this.cards = new Map();
    this.el = h("div", { class: "questions", hidden: true });
  }

  update(questions) {
    if (questions === this.shown) return;
    this.shown = questions;
    const wanted = new Set(questions.map((question) => question.id));
    for (const [id, card] of this.cards) {
      if (wanted.has(id)) continue;
      card.remove();
      this.cards.delete(id);
    }
    for (const question of questions) {
      if (this.cards.has(question.id)) continue;
      const card = CARDS[question.kind](question, (answer) => this.#answer(question, card, answer));
      this.cards.set(question.id, card);
      this.el.append(card);
    }
    this.el.hidden = questions.length === 0;
  }

  /** Focus the safe answer of the first question that is open; returns whether there is one. */
  focus() {
    const button = this.el.querySelector("[data-default]:enabled");
    button?.focus();
    return button !== null;
  }

  /** The same for a question that has just come, unless the user is typing: the next space would answer it. */
  focusNew() {
    const { activeElement: focused } = document;
    const isTyping = focused.matches("input, textarea, select, [contenteditable='true']") && focused.value !== "";
    if (!isTyping) this.focus();
  }

  async #answer(question, card, answer) {
    const buttons = card.querySelectorAll("button, input, select");
    const focused = card.contains(document.activeElement) ? document.activeElement : null;
    for (const button of buttons) button.disabled = true;
    const problem = await this.answer(question, answer);
    if (problem) {
      for (const button of buttons) button.disabled = false;
      fill(card.querySelector(".problem"), icon("warn"), problem);
    }
    if (!focused || !isFocusLost()) return;
    if (problem) focused.focus();
    else this.leave();
  }
}

let count = 0;

function frame(title, ...children) {
  count += 1;
  const heading = h("h3", { id: `question-${count}` }, icon("question"), title);
  return h(
    "form",
    {
      class: "question", "aria-labelledby": heading.id,
      onsubmit: (event) => event.preventDefault(),
    },
    heading,
    ...children,
    h("p", { class: "problem bad-text" }),
    h("div", { class: "sr-only", role: "alert" }, `Question: ${title}`),
  );
}

// The next question may stand where this one was: it is not answered by the second click of a double click.
const button = (words, onclick, props = {}) => h("button", { type: "button", onclick: onceClicked(onclick), ...props }, words);

const MAX_TITLE = 80; // characters of the action that a title shows
const CHANGES = new Set(["Edit File", "Write File"]); // the tools that show a diff: a command may look like one
const ACTIONS = dictionary({ "Execute Shell Command": "Run", "Edit File": "Edit", "Write File": "Write" }); // in Newel's words; those of other tools are theirs
const OUTSIDE = "(outside of the sandbox: ";
const NOTES = [OUTSIDE, "(your rule asks: ", "(a hook asks (", "(what it runs is only known when it runs, "]; // why it is asked, above the action

// What stands above a diff: that the call has changed, where a link leads, or why the file needs an answer.
const ABOVE = /^(?:This call changed .*\n)?(?:.*(?: → .*| {2}\(.*\))\n)?(?=--- )/;

function approval(question, answer) {
  const above = CHANGES.has(question.title) ? (ABOVE.exec(question.preview)?.[0] ?? "") : "";
  const diff = question.preview.slice(above.length);
  const file = CHANGES.has(question.title) ? /^--- .*\n\+\+\+ (.*)\n@@ /.exec(diff)?.[1] : undefined;
  const lines = question.preview.trim().split("\n");
  const isNote = (line) => NOTES.some((note) => line.startsWith(note));
  const [first, ...others] = lines.every(isNote) ? lines : lines.slice(lines.findIndex((line) => !isNote(line)));
  const where = question.preview.startsWith(OUTSIDE) ? " outside of the sandbox" : "";
  const what = truncate(reveal(file ?? first), MAX_TITLE) + (!file && others.length > 0 ? " …" : "");
  const preview = file
    ? [above && h("p", { class: "words" }, reveal(above.trimEnd())), wholeDiffView(diff)]
    : h("pre", { class: "exact", tabindex: "0", "aria-label": "Requested action" }, reveal(question.preview));
  const word = h("input", {
    type: "text", "aria-label": "What to do instead", placeholder: "What to do instead (optional)", maxlength: "2000",
    onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      no();
    },
  });
  const no = () => answer({ decision: "no", ...(word.value.trim() && { word: word.value.trim() }) });
  const once = file ? "Allow once" : "Run once";
  return frame(
    `Allow ${file ? "changes to " : ""}“${what}”${where}?`,
    question.subagent && h("p", {}, "The subagent ", h("strong", {}, reveal(question.subagent)), " asks."),
    h("p", { class: "dim" }, `${ACTIONS[question.title] ?? reveal(question.title)} in `, h("code", {}, reveal(question.folder || "an unnamed folder")), ":"),
    preview,
    h("div", { class: "row" },
      button("No", no, { class: "primary", "data-default": true }),
      button(once, () => answer({ decision: "once" })),
      button("Always allow exactly this", () => answer({ decision: "always" })),
      question.rule && button(`Always allow in this project: ${reveal(question.rule)}`, () => answer({ decision: "rule" })),
      word),
  );
}

/** A server that a command in the sandbox wants to reach: its name has no characters but those of host names. */
function server(question, answer) {
  const name = reveal(question.title);
  return frame(
    `Allow a connection to “${truncate(name, MAX_TITLE)}”?`,
    h("p", {}, reveal(question.preview.split("\n").slice(2).join(" ")), " Project: ",
      h("code", {}, reveal(question.folder))),
    h("pre", { class: "exact", tabindex: "0", "aria-label": "Server" }, name),
    /(^|\.)xn--/.test(name) && h("p", { class: "warn-text" }, "Parts that begin with xn-- encode letters of other scripts, which can look like those of another name."),
    h("div", { class: "row" },
      button("Refuse", () => answer({ decision: "no" }), { class: "primary", "data-default": true }),
      button("Allow in this conversation", () => answer({ decision: "once" })),
      button("Always allow in this project", () => answer({ decision: "rule" }))),
    h("p", { class: "dim" }, "The first two hold until this conversation is closed or Newel ends."),
  );
}

function link(question, answer) {
  let host = "";
  try {
    const url = new URL(question.url);
    if (/^https?:$/.test(url.protocol)) host = url.host;
  } catch {
    // not a URL: it is shown, but cannot be opened
  }
  return frame(
    reveal(question.title),
    question.preview && h("p", { class: "words" }, reveal(question.preview)),
    h("pre", { class: "exact", tabindex: "0", "aria-label": "Address" }, reveal(question.url)),
    h("div", { class: "row" },
      button("Decline", () => answer({ action: "decline" }), { class: "primary", "data-default": true }),
      host && h("a", { class: "button", href: question.url, target: "_blank", rel: "noopener noreferrer" }, `Open ${reveal(host)}`),
      button("Done", () => answer({ action: "accept", content: {} })),
      button("Cancel", () => answer({ action: "cancel" }))),
  );
}

// -- a form from a flat JSON Schema -------------------------------------------------------------------

function form(question, answer) {
  const required = new Set(question.schema.required ?? []);
  const fields = Object.entries(question.schema.properties ?? {}).map(([name, schema]) =>
    field(name, schema, required.has(name)));
  const card = frame(
    reveal(question.title),
    question.preview && h("p", { class: "words" }, reveal(question.preview)),
    ...fields.map((each) => each.el),
    h("div", { class: "row" },
      button("Decline", () => answer({ action: "decline" }), { class: "primary", "data-default": true }),
      h("button", { type: "submit" }, "Send"),
      button("Cancel", () => answer({ action: "cancel" }))),
  );
  card.addEventListener("submit", () => {
    const given = fields.map((each) => [each.name, each.value()]).filter(([, value]) => value !== undefined);
    answer({ action: "accept", content: Object.fromEntries(given) });
  });
  return card;
}

const INPUTS = dictionary({ email: "email", uri: "url", date: "date", "date-time": "datetime-local" });

function field(name, schema, required) {
  count += 1;
  const id = `field-${count}`;
  const about = schema.description && h("span", { class: "dim", id: `${id}-about` }, reveal(schema.description));
  const label = h("label", { for: id }, reveal(schema.title ?? name), required ? " (required)" : "");
  const control = controlFor(schema, required);
  setAttr(control, "id", id);
  if (about) setAttr(control, "aria-describedby", about.id);
  const side = schema.type === "boolean" ? [control, label] : [label, control];
  return { name, el: h("div", { class: `field ${schema.type}` }, ...side, about), value: () => valueOf(control, schema) };
}

function controlFor(schema, required) {
  const choices = choicesOf(schema);
  const initial = schema.default;
  if (schema.type === "array" || choices) {
    const many = schema.type === "array";
    const chosen = (value) => (many ? [initial].flat().includes(value) : initial === value);
    return h("select", { multiple: many, required },
      !many && !required && h("option", { value: "" }, "(none)"),
      ...(choices ?? []).map(([value, title]) => h("option", { value, selected: chosen(value) }, reveal(title))));
  }
  if (schema.type === "boolean") return h("input", { type: "checkbox", checked: initial === true });
  if (schema.type === "integer" || schema.type === "number") {
    return h("input", {
      type: "number", required, min: schema.minimum, max: schema.maximum, value: initial ?? "",
      step: schema.type === "integer" ? "1" : "any",
    });
  }
  return h("input", {
    type: INPUTS[schema.format] ?? "text", required, minlength: schema.minLength, maxlength: schema.maxLength,
    pattern: schema.pattern, value: initial ?? "",
  });
}

/** The choices of a schema as [[value, title]]; null if it has none. */
function choicesOf(schema) {
  const from = schema.type === "array" ? (schema.items ?? {}) : schema;
  const titled = from.oneOf ?? from.anyOf;
  if (titled?.every((each) => "const" in each)) return titled.map((each) => [String(each.const), String(each.title ?? each.const)]);
  return from.enum?.map((value, index) => [String(value), String(from.enumNames?.[index] ?? value)]) ?? null;
}

function valueOf(control, schema) {
  if (schema.type === "boolean") return control.checked;
  if (control.multiple) return [...control.selectedOptions].map((option) => option.value);
  if (control.value === "") return undefined;
  return schema.type === "integer" || schema.type === "number" ? Number(control.value) : control.value;
}

const CARDS = { approval, server, form, link };
