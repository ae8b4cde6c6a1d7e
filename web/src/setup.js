// Model setup: why no model is available, and a form for another model server. Newel keeps the values until it exits; the
// key is never stored.

import { openDialog } from "./dialog.js";
import { fill, h, icon, setText } from "./dom.js";
import { plain } from "./format.js";

/** Describe the problem with the model of `hello`; "" for none. */
function describeModelProblem({ model, problem }) {
  if (!problem) return "";
  return model ? "The model server is not responding." : "No model configured.";
}

class ModelForm {
  /** `use(fields)` resolves to model names if one has to be chosen, to none when done; then `done()` is called. */
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
      field("URL of an OpenAI-compatible server or Ollama", this.address),
      field("API key (optional)", this.key), this.choice,
      h("div", { class: "row" }, this.go),
      this.problem,
      h("p", { class: "dim" }, "Used until Newel exits. To make it permanent, edit config.toml or set LLM_BASE_URL."));
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
        this.announce("Choose a model.");
        this.model.focus();
        return;
      }
      this.key.value = "";
      this.announce("Model server configured.");
      this.done();
    } catch (error) {
      fill(this.problem, icon("warn"), h("span", {}, plain(error.message)));
    } finally {
      this.go.disabled = false;
    }
  }
}

/** On the empty page: the problem and the form. */
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

/** The banner above all tabs that leads to the form. */
export class ModelNote {
  constructor({ open }) {
    this.words = h("span", {});
    this.el = h("div", { class: "banner model-note", role: "status", hidden: true }, this.words,
      h("button", { type: "button", onclick: open }, "Set up a model"));
  }

  /** `hasForm`: whether the page shows the form already. */
  update({ hello, hasForm }) {
    const trouble = describeModelProblem(hello);
    this.el.hidden = !trouble || hasForm;
    setText(this.words, `${trouble} You can still review pending changes.`);
    this.el.title = plain(hello.problem);
  }
}

export const openSetup = (parts) =>
  openDialog({
    label: "Set up a model",
    build: (done) => [h("h2", {}, "Set up a model"), new ModelForm({ ...parts, done }).el],
  });
