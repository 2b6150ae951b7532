// The figures at the top: what the server does now, each with its last minute.

import { counted } from "../shared/counted.js";
import { h, setText } from "../shared/dom.js";
import { span } from "./receipts.js";

const SVG = "http://www.w3.org/2000/svg";
const RATE_SECONDS = 2; // over which a rate is counted
const SHOWN_SECONDS = 60;
const POINTS = 60;
const WIDTH = 96;
const HEIGHT = 20;

const KINDS = [
  { name: "written", unit: "tokens/s", rate: ({ output }) => output },
  { name: "read", unit: "tokens/s", rate: ({ prefill }) => prefill },
];

/** Shows the figures of a model. */
export class Instruments {
  constructor(model, signal) {
    this.model = model;
    this.rates = KINDS.map((kind) => ({ ...kind, ...cell(kind.name, kind.unit, true) }));
    this.slots = cell("answering now", "", false);
    this.waiting = cell("waiting", "", false);
    this.cancelled = cell("cancelled", "", false);
    this.step = cell("step time", "ms", false);
    this.accepted = cell("drafts accepted", "%", false);
    this.element = h(
      "dl",
      { class: "instruments" },
      [this.slots, this.waiting, this.cancelled, ...this.rates, this.step, this.accepted].map(({ element }) => element),
    );
    model.addEventListener("frame", () => this.show(), { signal });
  }

  show() {
    const { state, samples, steps, facts, receipts } = this.model;
    const recent = [...samples].slice(-SHOWN_SECONDS * 6);
    for (const { rate, value, line } of this.rates) {
      const points = ratesOf(recent, rate, this.model.at);
      setText(value, format(points.at(-1) ?? 0));
      line.setAttribute("points", polyline(points));
    }
    const { manager, speculation } = state.statistics;
    const step = median([...steps].slice(-40));
    setText(this.step.value, step === undefined ? "–" : format(step * 1e3));
    setText(this.step.unit, `ms, target ${format(facts.stepSeconds * 1e3)}`);
    setText(this.accepted.value, speculation.drafted_tokens ? format(share(recent, this.model.at) * 100) : "–");
    setText(this.slots.value, `${state.slots.filter((slot) => slot.state !== "idle").length}`);
    setText(this.slots.unit, `of ${counted(state.slots.length, "slot")}`);
    setText(this.waiting.value, `${manager.queued}`);
    setText(this.waiting.unit, `of ${counted(facts.queue, "place")}`);
    const cancels = Object.values(manager.cancels).reduce((sum, each) => sum + each, 0);
    const freed = median([...receipts].filter(hadSlot).map(({ detected_at: detected, slot_freed_at: at }) => at - detected));
    setText(this.cancelled.value, `${cancels}`);
    setText(this.cancelled.unit, freed === undefined ? "so far" : `freed in ${span(0, freed)}`);
  }
}

function hadSlot({ slot_freed_at: at }) {
  return at !== null;
}

/** The one in the middle; undefined for none. */
function median(values) {
  return values.sort((a, b) => a - b)[values.length >> 1];
}

function cell(name, unitText, hasLine) {
  const value = h("span", { class: "value" });
  const unit = h("span", { class: "unit" }, unitText);
  const line = document.createElementNS(SVG, "polyline");
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  picture.setAttribute("aria-hidden", "true");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.append(line);
  const element = h("div", {}, h("dt", {}, name), h("dd", {}, value, " ", unit, hasLine && picture));
  return { element, value, unit, line };
}

/** A count's rates, one for each second of the last minute, the oldest first. */
function ratesOf(samples, count, now) {
  const rates = [];
  let place = 0;
  for (let ago = POINTS - 1; ago >= 0; ago -= 1) {
    const at = now - ago;
    while (place + 1 < samples.length && samples[place + 1].at <= at) place += 1;
    const last = samples[place];
    if (!last || last.at > at) {
      rates.push(0);
      continue;
    }
    let first = place;
    while (first > 0 && samples[first].at > at - RATE_SECONDS) first -= 1;
    rates.push(Math.max(0, count(last) - count(samples[first])) / RATE_SECONDS);
  }
  return rates;
}

/** Of the drafts of the last minute, those that stood; of all, where there were none. */
function share(samples, now) {
  const last = samples.at(-1);
  const first = samples.find(({ at }) => at > now - SHOWN_SECONDS) ?? last;
  const drafted = last.drafted - first.drafted;
  return drafted > 0 ? (last.accepted - first.accepted) / drafted : last.accepted / last.drafted;
}

function polyline(points) {
  const most = Math.max(1, ...points);
  return points.map((value, place) => `${(place / (POINTS - 1)) * WIDTH},${HEIGHT - 1 - (value / most) * (HEIGHT - 2)}`).join(" ");
}

function format(value) {
  return value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}
