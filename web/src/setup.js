// The model that answers: why there is none, or why it is silent, and a form for the address of another server. What is
// written there goes to the server once; it keeps it for as long as it runs, and nobody keeps the key.

import { openDialog } from "./dialog.js";
import { fill, h, icon, setText } from "./dom.js";
import { plain } from "./format.js";

/** What is wrong with the model of `hello`, in a sentence; "" if nothing is, as far as is known. */
export function describeModelProblem({ model, problem }) {
  if (!problem) return "";
  return model ? "The model's server does not answer." : "No model is set up.";
}

export class ModelForm {
  /** `use(fields)` resolves to the names of models of which one has to be chosen, none if it was done; `done()` hears of that. */
  constructor({ use, announce, done = () => {} }) {
    Object.assign(this, { use, announce, done });
    const field = (label, input) => h("label", { class: "field" }, h("span", {}, label), input);
    const text = { autocomplete: "off", spellcheck: "false" };
    this.address = h("input", { type: "text", class: "mono", required: true, placeholder: "http://127.0.0.1:11434/v1", ...text });
    this.key = h("input", { type: "password", ...text });
    this.model = h("select", {});
    this.choice = field("Model", this.model);
    this.choice.hidden = true;
    this.problem = h("p", { class: "problem bad-text", role: "alert" });
    this.go = h("button", { type: "submit", class: "primary" }, "Use this server");
    this.el = h("form", { class: "model-form", "aria-label": "Model server", onsubmit: (event) => this.#submit(event) },
      field("Address of an OpenAI-compatible server, or of Ollama", this.address),
      field("Key, if it needs one", this.key), this.choice,
      h("div", { class: "row" }, this.go),
      this.problem,
      h("p", { class: "dim" }, "Used until this Newel ends. To keep an address, write it into config.toml or set LLM_BASE_URL."));
    this.address.addEventListener("input", () => this.#choose([]));
  }

  #choose(names) {
    this.choice.hidden = names.length === 0;
    fill(this.model, ...names.map((name) => h("option", { value: name }, plain(name))));
  }

  async #submit(event) {
    event.preventDefault();
    if (this.go.disabled) return;
    this.go.disabled = true;
    fill(this.problem);
    const [baseUrl, apiKey, model] = [this.address.value.trim(), this.key.value.trim(), this.choice.hidden ? "" : this.model.value];
    try {
      const names = await this.use({ baseUrl, ...(apiKey && { apiKey }), ...(model && { model }) });
      this.#choose(names);
      if (names.length > 0) {
        this.announce("Choose a model of this server.");
        this.model.focus();
        return;
      }
      this.key.value = "";
      this.announce("The model server is set.");
      this.done();
    } catch (error) {
      fill(this.problem, icon("warn"), h("span", {}, plain(error.message)));
    } finally {
      this.go.disabled = false;
    }
  }
}

/** On the first page: what was looked for, and the form. */
export class ModelSetup {
  constructor(parts) {
    this.form = new ModelForm(parts);
    this.title = h("p", { class: "empty-title" });
    this.words = h("p", { class: "model-words", tabindex: "0" });
    this.el = h("section", { class: "model-setup", "aria-label": "Model", hidden: true }, this.title, this.words, this.form.el);
  }

  update(hello) {
    const trouble = describeModelProblem(hello);
    this.el.hidden = !trouble;
    setText(this.title, trouble);
    setText(this.words, plain(hello.problem));
  }
}

/** Above all tabs: that there is no model, and the way to one. */
export class ModelNote {
  constructor({ open }) {
    this.words = h("span", {});
    this.el = h("div", { class: "banner model-note", role: "status", hidden: true }, this.words,
      h("button", { type: "button", onclick: open }, "Set up a model"));
  }

  /** `isElsewhere`: the form stands on the page that is shown. */
  update({ hello, hasForm }) {
    const trouble = describeModelProblem(hello);
    this.el.hidden = !trouble || hasForm;
    setText(this.words, `${trouble} What waits for review can be decided without one.`);
    this.el.title = plain(hello.problem);
  }
}

export const openSetup = (parts) =>
  openDialog({
    label: "Set up a model",
    build: (done) => [h("h2", {}, "Set up a model"), new ModelForm({ ...parts, done }).el],
  });
