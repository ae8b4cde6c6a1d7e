// What the project brings that waits for trust: hooks, MCP servers, skills. A note above all tabs, and the question.

import { openDialog } from "./dialog.js";
import { fill, h, icon, iconButton, onceClicked, setText } from "./dom.js";
import { formatCodePoint, plain, reveal } from "./format.js";

const WAITING = "This project brings commands, tools or skills that are used only if you trust them.";
const TITLE = "Trust what this project brings?";
const TRUSTED = "Trusted. It is used from the next message on.";
const DECLINED = "Declined. Nothing of it is used.";
const NOTHING = { items: [], digest: "", problem: "" };

/** The note that leads to the question. It stays away once it was answered by "Not now", until something else waits. */
export class TrustNote {
  #put = ""; // the digest of what is not to be decided now

  constructor({ open }) {
    this.words = h("span", {});
    this.button = h("button", { type: "button", onclick: open }, "Show them");
    this.el = h("div", { class: "banner model-note", role: "status", hidden: true }, this.words, this.button);
  }

  update({ digest, problem }) {
    this.el.hidden = problem ? false : !digest || digest === this.#put;
    this.button.hidden = Boolean(problem);
    setText(this.words, problem ? reveal(problem) : WAITING);
  }

  putOff(trust) {
    this.#put = trust.digest;
    this.update(trust);
  }
}

export class TrustDialog {
  /** `actions.loadTrust()` and `actions.decideTrust(digest, trusted)` resolve to what waits then; `putOff(trust)` and `decided(words)` follow an answer. */
  constructor({ actions, putOff, decided }) {
    Object.assign(this, { actions, putOff, decided });
  }

  async open() {
    this.heading = h("h2", { tabindex: "-1", autofocus: true }, TITLE);
    this.problem = h("p", { class: "problem bad-text", role: "alert" });
    this.place = h("div", { class: "trust-items" }, h("p", { class: "dim" }, "Loading…"));
    this.shown = NOTHING;
    void this.#load();
    const words = await openDialog({
      label: TITLE,
      kind: "trusting",
      build: (close) => {
        this.close = close;
        return [h("div", { class: "dialog-head" }, this.heading, iconButton("close", "Close", () => close())), this.problem,
          h("p", { class: "dim" }, "Nothing of this is used until you trust it. The answers are at its end."), this.place];
      },
    });
    if (words) this.decided(words);
    else this.putOff(this.shown);
  }

  async #load() {
    const trust = await this.#try(this.actions.loadTrust());
    if (trust) this.#show(trust);
  }

  /** The answers come last: to reach them, one passes all that they are about. */
  #show(trust) {
    const { items, digest, problem } = (this.shown = trust);
    fill(this.place,
      ...items.map(({ title, lines }) => h("section", { class: "trust-item" },
        h("p", {}, revealLine(title)), h("pre", { class: "exact" }, lines.map(revealLine).join("\n")))),
      !digest && h("p", { class: "dim" }, problem ? reveal(problem) : "Nothing waits for your trust."),
      digest && h("p", {}, "Trust all of this, until it changes?"),
      digest && h("div", { class: "row" },
        button("Not now", () => this.close(), { class: "primary" }),
        button("Trust these", () => this.#decide(true)),
        button("Never use these", () => this.#decide(false))));
  }

  async #decide(trusted) {
    fill(this.problem);
    for (const each of this.place.querySelectorAll("button")) each.disabled = true;
    if (await this.#try(this.actions.decideTrust(this.shown.digest, trusted))) return this.close(trusted ? TRUSTED : DECLINED);
    await this.#load();
    this.heading.focus();
  }

  /** What a request resolves to; null if it failed, and then the problem is shown. */
  async #try(request) {
    try {
      return await request;
    } catch (error) {
      fill(this.problem, icon("warn"), h("span", {}, plain(error.message)));
      return null;
    }
  }
}

/** Control characters come as pictures, which many fonts lack. */
const revealLine = (line) => reveal(line.replace(/[\u2400-\u241f]/g, (picture) => formatCodePoint(String.fromCodePoint(picture.codePointAt(0) - 0x2400))));

const button = (words, onclick, props = {}) => h("button", { type: "button", onclick: onceClicked(onclick), ...props }, words);
