// Where KV is: in the pool of pages, in the slots, and in the tiers behind them.

import { counted } from "../shared/counted.js";
import { h, setText } from "../shared/dom.js";
import { Pool, mebibytes, tokensOf } from "./pool.js";

/** Shows how full each place is, of a model. */
export class Memory {
  constructor(model, signal) {
    this.model = model;
    this.slots = h("ol", { class: "slots" });
    this.tiers = { ram: tier("memory"), disk: tier("disk") };
    this.hits = h("p", { class: "hint" });
    this.pool = new Pool(model, signal);
    this.element = h("div", { class: "memory" }, this.pool.element, this.slots, this.tiers.ram.element, this.tiers.disk.element, this.hits);
    model.addEventListener("frame", () => this.show(), { signal });
  }

  show() {
    const { state, facts } = this.model;
    while (this.slots.children.length > state.slots.length) this.slots.lastChild.remove();
    state.slots.forEach((slot, place) => this.showSlot(slot, place, facts.context));
    const { cache } = state.statistics.manager;
    showTier(this.tiers.ram, cache.ram);
    showTier(this.tiers.disk, cache.disk);
    const { resident, live, ram, disk } = cache.hits;
    setText(
      this.hits,
      `Prompt tokens that were found and not computed: ${resident + live} in slots, ${ram} in memory, ${disk} on disk.`,
    );
  }

  showSlot(slot, place, context) {
    const tokens = tokensOf(slot);
    const item = this.slots.children[place] ?? this.slots.appendChild(h("li", {}, h("span", { class: "fill" }), h("span", {})));
    item.className = slot.state;
    item.firstChild.style.inlineSize = `${(100 * Math.min(tokens, context)) / context}%`;
    setText(item.lastChild, `slot ${slot.id}: ${tokens} of ${context}${slot.state === "idle" && tokens ? ", kept" : ""}`);
  }
}

function tier(name) {
  const fill = h("span", { class: "fill" });
  const text = h("span", {});
  return { name, fill, text, element: h("p", { class: "tier", hidden: true }, fill, text) };
}

function showTier({ name, fill, text, element }, figures) {
  element.hidden = !figures;
  if (!figures) return;
  const { bytes, budget, blocks } = figures;
  fill.style.inlineSize = `${budget ? (100 * bytes) / budget : 0}%`;
  setText(text, `${name}: ${mebibytes(bytes)} of ${mebibytes(budget)} MiB, ${counted(blocks, "block")}`);
}
