// The panel of a conversation's settings.

/** @import { ChatSession } from "../state/session.js" */
/** @import { Settings } from "../state/settings.js" */

import { h, setText } from "../../shared/dom.js";
import { faultOf } from "../state/settings.js";

const NUMBERS = [
  { name: "temperature", label: "temperature", step: "0.1", least: "0", default: "temperature" },
  { name: "topP", label: "top_p", step: "0.05", least: "0", default: "top_p" },
  { name: "topK", label: "top_k", step: "1", least: "0", default: "top_k" },
  { name: "minP", label: "min_p", step: "0.01", least: "0", default: "min_p" },
  { name: "maxTokens", label: "max_tokens", step: "1", least: "0", default: "" },
  { name: "seed", label: "seed", step: "1", least: "-1", default: "" },
];
const EFFORTS = [["", "the server's default"], ...["none", "minimal", "low", "medium", "high"].map((name) => [name, name])];
const CHOICES = [["", "auto"], ["required", "required"], ["none", "none"]];
const SHOWN = [["markdown", "Markdown"], ["text", "plain text"]];

export class SettingsPanel {
  #models = null;

  /** @param {ChatSession} session */
  constructor(session) {
    this.session = session;
    /** @type {Record<keyof Settings, HTMLElement>} */
    this.fields = {};
    this.fault = h("p", { class: "fault", id: "settings-fault", role: "alert" });
    this.element = h(
      "aside",
      { class: "settings", id: "chat-settings", "aria-label": "Settings of the conversation" },
      this.#labelled("model", "Model", h("select", {})),
      this.#labelled("system", "System prompt", area(3)),
      h("fieldset", {}, h("legend", {}, "Sampling"), h("div", { class: "numbers" }, NUMBERS.map((number) => this.#number(number)))),
      this.#labelled("stop", "Stop strings, one a line", area(1)),
      this.#labelled("effort", "Reasoning effort", choice(EFFORTS)),
      h("details", {}, h("summary", {}, "Tools"),
        this.#labelled("tools", "Tools, as JSON", area(5)),
        this.#labelled("toolChoice", "tool_choice", choice(CHOICES))),
      h("details", {}, h("summary", {}, "Structured output"), this.#labelled("schema", "JSON schema of answers", area(5))),
      this.#labelled("show", "Show answers as", choice(SHOWN)),
      this.fault,
    );
  }

  update() {
    const { settings } = this.session.current;
    if (this.session.models !== this.#models) this.#showModels();
    for (const [name, field] of Object.entries(this.fields)) {
      if (field.value !== settings[name] && field !== document.activeElement) field.value = settings[name];
    }
    this.#showFault(faultOf(settings));
  }

  /** Show where the fault is. @param {import("../state/settings.js").SettingsError} fault */
  point(fault) {
    const field = this.fields[fault.field];
    const folded = field.closest("details");
    if (folded) folded.open = true;
    field.focus();
  }

  #showFault(fault) {
    setText(this.fault, fault?.message ?? "");
    for (const [name, field] of Object.entries(this.fields)) {
      field.toggleAttribute("aria-invalid", name === fault?.field);
      if (name === fault?.field) field.setAttribute("aria-describedby", this.fault.id);
      else field.removeAttribute("aria-describedby");
    }
  }

  #showModels() {
    this.#models = this.session.models;
    this.fields.model.replaceChildren(
      h("option", { value: "" }, this.#models.length ? `the server's: ${this.#models[0].id}` : "the server's"),
      ...this.#models.map(({ id }) => h("option", { value: id }, id)),
    );
    const chosen = this.#models[0]?.sampling_defaults ?? {};
    for (const { name, default: key } of NUMBERS) {
      if (key in chosen) this.fields[name].placeholder = String(chosen[key]);
    }
  }

  #number({ name, label, step, least }) {
    return this.#labelled(name, label, h("input", { type: "number", step, min: least, inputmode: "decimal" }));
  }

  #labelled(name, label, field) {
    this.fields[name] = field;
    field.addEventListener("input", () => this.session.configure({ [name]: field.value }));
    return h("label", {}, label, field);
  }
}

function area(rows) {
  return h("textarea", { rows: String(rows), spellcheck: "false" });
}

function choice(options) {
  return h("select", {}, options.map(([value, label]) => h("option", { value }, label)));
}
