// The KV that all sequences share, as a map: where each slot's sequence lies, and how much of its place it has in use.

import { counted } from "../shared/counted.js";
import { h, setText } from "../shared/dom.js";

/** Shows the arena of a model. */
export class Arena {
  constructor(model, signal) {
    this.model = model;
    this.map = h("div", { class: "map", role: "img" });
    this.room = h("p", {});
    this.done = h("p", { class: "hint" });
    this.element = h("div", { class: "arena" }, this.map, this.room, this.done);
    model.addEventListener("frame", () => this.show(), { signal });
  }

  show() {
    const { slots, statistics } = this.model.state;
    const { arena } = statistics.manager;
    const placed = [...slots.filter(({ capacity }) => capacity), ...arena.shelves];
    while (this.map.children.length > placed.length) this.map.lastChild.remove();
    placed.forEach((slot, place) => this.showExtent(slot, place, arena));
    this.map.setAttribute("aria-label", `Map of the KV arena. ${placed.map(sentence).join(" ") || "Nothing is in it."}`);
    setText(this.room, roomText(arena));
    setText(this.done, doneText(arena));
  }

  showExtent(slot, place, { positions, moving }) {
    const item = this.map.children[place] ?? this.map.appendChild(h("span", {}, h("span", { class: "fill" })));
    item.className = `extent ${isHeld(slot) ? "held" : "idle"}${slot.id === moving ? " moving" : ""}`;
    item.style.insetInlineStart = percent(slot.origin, positions);
    item.style.inlineSize = percent(slot.capacity, positions);
    item.title = sentence(slot);
    item.firstChild.style.inlineSize = percent(tokensOf(slot), slot.capacity);
  }
}

/** The tokens of a slot's sequence, or those that are kept in it; or in a retained extent, which has no state. */
export function tokensOf({ state, tokens, resident_tokens: resident }) {
  return state === "idle" ? resident : tokens;
}

function isHeld({ state }) {
  return state !== undefined && state !== "idle";
}

/** What is shared, and how much of it nobody has. */
export function roomText({ positions, free, bytes, free_bytes: freeBytes, largest_gap: gap }) {
  const size = bytes ? ` (${mebibytes(bytes)} MiB)` : "";
  if (!free) return `Room for ${count(positions)} tokens${size}, all of it taken.`;
  const left = freeBytes ? ` (${mebibytes(freeBytes)} MiB)` : "";
  const together = gap === free ? "in one piece" : `at most ${count(gap)} together`;
  return `Room for ${count(positions)} tokens${size}; ${count(free)}${left} free, ${together}.`;
}

/** What was done in it since the server started. */
export function doneText({ grown, moves, compactions, given_up: givenUp, moving, shelves }) {
  const parts = [`So far ${count(grown)} grew in place and ${count(moves)} were moved, ${count(compactions)} to make room for another`];
  if (givenUp) parts.push(`${count(givenUp)} that were kept made room`);
  if (moving !== null) parts.push(`${shelves.some(({ id }) => id === moving) ? "retained extent" : "slot"} ${moving} is being moved`);
  return `${parts.join("; ")}.`;
}

/** A size in MiB. */
export function mebibytes(bytes) {
  const value = bytes / 2 ** 20;
  return value < 10 ? value.toFixed(1) : count(Math.round(value));
}

function sentence(slot) {
  const kept = isHeld(slot) ? "" : ", kept";
  const name = slot.state === undefined ? "Retained extent" : "Slot";
  return `${name} ${slot.id}: ${counted(tokensOf(slot), "token", count(tokensOf(slot)))}${kept}, from ${count(slot.origin)} to ${count(slot.origin + slot.capacity)}.`;
}

function percent(part, whole) {
  return `${whole ? (100 * Math.min(part, whole)) / whole : 0}%`;
}

function count(number) {
  return number.toLocaleString("en");
}
