// The pages of KV that all sequences share: how many those who run have, how many are kept in idle slots, what is free.

import { h, setText } from "../shared/dom.js";

/** Shows the pool of a model. */
export class Pool {
  constructor(model, signal) {
    this.model = model;
    this.parts = ["held", "resident"].map((name) => h("span", { class: name }));
    this.shared = h("span", { class: "shared" });
    this.bar = h("div", { class: "pages", role: "img" }, ...this.parts, this.shared);
    this.room = h("p", {});
    this.done = h("p", { class: "hint" });
    this.element = h("div", { class: "pool" }, this.bar, this.room, this.done);
    model.addEventListener("frame", () => this.show(), { signal });
  }

  show() {
    const { pool } = this.model.state.statistics.manager;
    this.parts.forEach((part) => { part.style.inlineSize = percent(pool[part.className], pool.positions); });
    this.shared.style.inlineSize = percent(pool.shared, pool.positions);
    this.bar.setAttribute("aria-label", `The pool of KV. ${roomText(pool)}`);
    setText(this.room, roomText(pool));
    setText(this.done, doneText(pool));
  }
}

/** The tokens of a slot's sequence, or those that are kept in it. */
export function tokensOf({ state, tokens, resident_tokens: resident }) {
  return state === "idle" ? resident : tokens;
}

/** Who has how much of it; what several have is counted once. */
export function roomText({ positions, free, held, resident, shared, bytes, free_bytes: freeBytes }) {
  const size = bytes ? ` (${mebibytes(bytes)} MiB)` : "";
  const left = freeBytes ? ` (${mebibytes(freeBytes)} MiB)` : "";
  const common = shared ? `, ${count(shared)} of both shared by several` : "";
  return `Room for ${count(positions)} tokens${size}: ${count(held)} held, ${count(resident)} kept${common}; ${count(free)}${left} free.`;
}

/** What was done in it since the server started. */
export function doneText({ shared_tokens: shared, copied_pages: copied, given_up: givenUp, shelves }) {
  const parts = [`So far ${count(shared)} tokens were shared, and ${count(copied)} pages copied on write`];
  if (givenUp) parts.push(`${count(givenUp)} sequences that were kept made room`);
  if (shelves.length) parts.push(`${count(shelves.length)} in no slot are kept for those who were preempted, or left a slot to them`);
  return `${parts.join("; ")}.`;
}

/** A size in MiB. */
export function mebibytes(bytes) {
  const value = bytes / 2 ** 20;
  return value < 10 ? value.toFixed(1) : count(Math.round(value));
}

function percent(part, whole) {
  return `${whole ? (100 * Math.min(part, whole)) / whole : 0}%`;
}

function count(number) {
  return number.toLocaleString("en");
}
