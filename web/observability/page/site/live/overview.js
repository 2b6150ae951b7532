// All workers side by side: what each does, how full it is, and the newest cancels of all.

import { h, scroller, setText } from "../shared/dom.js";
import { Instruments } from "./instruments.js";
import { Memory } from "./memory.js";
import { panel } from "./panels.js";
import { Receipts } from "./receipts.js";

/** Shows a fleet until the signal ends it; `choose(worker)` shows one alone. */
export class Overview {
  constructor(fleet, choose, signal) {
    this.fleet = fleet;
    this.choose = choose;
    this.signal = signal;
    this.cards = new Map(); // by the worker's id
    this.list = h("div", { class: "workers" });
    this.empty = h("p", { class: "hint" }, "No worker is known.");
    const receipts = new Receipts(fleet, signal);
    this.elements = [this.empty, this.list, panel("Cancels", scroller("Cancels", receipts.element))];
    fleet.addEventListener("workers", () => this.show(), { signal });
    this.show();
    receipts.show();
  }

  show() {
    const { workers } = this.fleet;
    for (const [worker, { model, element, ended }] of this.cards) {
      if (workers.get(worker)?.model === model) continue;
      ended.abort();
      element.remove();
      this.cards.delete(worker);
    }
    for (const worker of [...workers.keys()].sort()) {
      const { model, standing } = workers.get(worker);
      if (!this.cards.has(worker)) this.cards.set(worker, this.make(worker, model));
      const { element, status } = this.cards.get(worker);
      status.className = `status ${standing === "silent" ? "away" : "live"}`;
      setText(status, standing === "silent" ? "It says nothing." : "connected");
      this.list.append(element); // in order
    }
    this.empty.hidden = workers.size > 0;
  }

  make(worker, model) {
    const ended = new AbortController();
    const signal = AbortSignal.any([ended.signal, this.signal]);
    const status = h("p", { class: "status" });
    const button = h("button", { type: "button", "aria-label": `Show worker ${worker}`, onclick: () => this.choose(worker) }, "Show");
    const instruments = new Instruments(model, signal);
    const memory = new Memory(model, signal);
    const element = h(
      "section",
      { class: "panel worker", "aria-label": `worker ${worker}` },
      h("div", { class: "head" }, h("h2", {}, "worker ", h("code", {}, worker)), status, button),
      instruments.element,
      memory.element,
    );
    if (model.state) [instruments, memory, memory.pool].forEach((part) => part.show());
    return { model, element, status, ended };
  }
}
