// Where the results of a model's calls are typed in.

/** @import { ToolCall } from "../state/turn.js" */

import { h } from "../../shared/dom.js";
import { fitHeight } from "./editor.js";

export class ResultsForm {
  #of = "";

  /** @param {(results: string[]) => void} send */
  constructor(send) {
    this.fields = h("div", { class: "fields" });
    this.element = h(
      "form",
      {
        class: "results",
        hidden: true,
        onsubmit: (event) => {
          event.preventDefault();
          send([...this.fields.querySelectorAll("textarea")].map((area) => area.value));
        },
      },
      h("h3", {}, "The model waits for results"),
      this.fields,
      h("button", { class: "primary" }, "Send the results"),
    );
  }

  /** @param {ToolCall[]} calls  that have no result; none hides the form */
  update(calls) {
    const of = calls.map((call) => call.id).join();
    if (of === this.#of) return;
    this.#of = of;
    this.element.hidden = !calls.length;
    this.fields.replaceChildren(...calls.map((call) => {
      const area = h("textarea", { rows: "1", spellcheck: "false", oninput: () => fitHeight(area) });
      return h("label", {}, `Result of ${call.name}`, area);
    }));
  }
}
