// Asks for an API key, in a dialog, where the server wants one.

import { h } from "./dom.js";

export class KeyDialog {
  constructor(parent) {
    this.input = h("input", { type: "password", autocomplete: "off", pattern: "[!-~]+", required: true });
    const form = h(
      "form",
      { onsubmit: (event) => this.take(event) },
      h("h2", { id: "key-title" }, "This server has API keys"),
      h("label", {}, "Yours", this.input),
      h("p", { class: "hint" }, "It is kept in this tab until you close it, and sent to this server alone."),
      h("button", { class: "primary" }, "Use it"),
    );
    this.dialog = h("dialog", { class: "key", "aria-labelledby": "key-title" }, form);
    this.dialog.addEventListener("close", () => this.answer?.(null));
    parent.append(this.dialog);
  }

  /** The key that was given; null if the dialog was closed without one.  Who asks meanwhile shares the answer. */
  ask() {
    this.asked ??= new Promise((answer) => {
      this.answer = answer;
      this.input.value = "";
      this.dialog.showModal();
    }).finally(() => {
      this.asked = null;
    });
    return this.asked;
  }

  take(event) {
    event.preventDefault();
    this.answer(this.input.value);
    this.dialog.close();
  }
}
