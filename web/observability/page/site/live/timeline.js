// The moving timeline: names of the lanes, the canvas, and how to stop and go back.

import { counted } from "../shared/counted.js";
import { h, scroller, setText } from "../shared/dom.js";
import { coloursOf } from "./colours.js";
import { heightOf, paint, ROW, shortName } from "./painter.js";
import { Viewport, WINDOWS } from "./viewport.js";

const FRAME = 12; // milliseconds between two pictures, at least: one for each frame of a screen of up to 80 Hz
const LONGEST_BACK = 600; // seconds

const EMPTY = "Nothing has happened since this page was opened. A request is a bar in the lane of its slot, in the colours below.";

const LEGEND = [
  ["queued", "waits", "Every slot is taken, and it stands in the queue."],
  ["restored", "found", "What was read before is copied, and not read again."],
  ["prefill", "reads", "The model reads the prompt, a piece at a time."],
  ["draft", "drafts", "The next tokens are guessed, which is quick."],
  ["verify", "verifies", "The model checks the guesses, all of them at once."],
  ["decode", "writes", "The model writes the answer, token by token."],
  ["resident", "kept", "What was read stays for whoever asks something like it."],
  ["cancel", "cancel", "Somebody hung up, and the work for them ends."],
];

/** Shows a model until the signal ends it. */
export class Timeline {
  constructor(model, theme, signal) {
    this.model = model;
    this.viewport = new Viewport();
    this.names = h("ol", { class: "names", "aria-hidden": "true" });
    this.canvas = h("canvas", { role: "img", "aria-label": "Timeline of the slots and the queue; the table below says the same." });
    this.hint = h("div", { class: "tooltip", hidden: true });
    this.rest = h("p", { class: "hint" });
    this.controls = this.makeControls();
    this.element = h(
      "div",
      { class: "timeline" },
      scroller("Timeline", h("div", { class: "lanes" }, this.names, h("div", { class: "picture" }, this.canvas, this.hint))),
      this.rest,
      this.controls,
      h("ul", { class: "legend" }, LEGEND.map(([name, word, sentence]) => h("li", { class: name }, h("b", {}, word), ` ${sentence}`))),
    );
    this.listen(theme, signal);
  }

  makeControls() {
    this.pauseButton = h("button", { type: "button", onclick: () => this.toggle() }, "Pause");
    this.range = h("input", { type: "range", min: 0, max: 1, step: 0.1, value: 0, oninput: () => this.scrub() });
    const choose = (event) => (this.viewport.seconds = Number(event.target.value));
    const windows = WINDOWS.map((seconds) =>
      h("option", { value: seconds, selected: seconds === this.viewport.seconds }, seconds < 60 ? `${seconds} s` : `${seconds / 60} min`),
    );
    return h(
      "div",
      { class: "controls" },
      this.pauseButton,
      h("label", { class: "back" }, "Back", this.range),
      h("label", {}, "Window", h("select", { onchange: choose }, windows)),
    );
  }

  listen(theme, signal) {
    this.model.addEventListener("frame", ({ detail }) => this.hear(detail.kind), { signal });
    theme.addEventListener("change", () => (this.colours = null), { signal });
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => (this.hint.hidden = true));
    this.canvas.addEventListener("pointerdown", (event) => this.canvas.setPointerCapture(event.pointerId));
    const calm = matchMedia("(prefers-reduced-motion: reduce)");
    let last = 0;
    const turn = (now) => {
      if (signal.aborted) return;
      if (now - last >= (calm.matches ? 1000 : FRAME)) {
        last = now;
        this.draw();
      }
      requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
  }

  hear(kind) {
    this.viewport.hear(this.model.at, kind === "snapshot");
    this.nameLanes();
    const known = Math.min(LONGEST_BACK, Math.max(1, this.viewport.now - this.model.oldest));
    this.range.max = Number.isFinite(known) ? known.toFixed(1) : 1;
    this.busyUntil = this.model.state.requests.length || this.model.running ? Infinity : this.model.at + this.viewport.seconds + 1;
  }

  nameLanes() {
    const { drawn, slots } = this.model;
    const unused = slots.length - drawn.filter(({ kind }) => kind === "slot").length;
    const more = unused ? `and ${counted(unused, "slot")} more, in which nobody has been yet` : "";
    setText(this.rest, drawn.some(({ stays }) => stays.length) ? more : EMPTY);
    const names = drawn.map(({ kind, place }) => (kind === "slot" ? `slot ${place}` : `queue ${place + 1}`));
    if (names.join() === this.named) return;
    this.named = names.join();
    this.names.replaceChildren(...names.map((name) => h("li", {}, name)));
  }

  toggle() {
    if (this.viewport.isPaused) this.goOn();
    else this.stop();
  }

  stop() {
    this.viewport.pause();
    this.showPause();
  }

  goOn() {
    this.viewport.resume();
    this.range.value = 0;
    this.showPause();
  }

  scrub() {
    this.viewport.back(Number(this.range.value));
    this.showPause();
  }

  showPause() {
    this.pauseButton.textContent = this.viewport.isPaused ? "Go on live" : "Pause";
    this.range.setAttribute("aria-valuetext", `${counted(Number(this.range.value), "second")} back`);
    this.drawnAt = null;
    this.draw();
  }

  draw() {
    const { viewport, model, canvas } = this;
    if (!model.state) return;
    const width = canvas.parentElement.clientWidth;
    const lanes = model.drawn;
    const height = heightOf(lanes.length);
    const ratio = devicePixelRatio;
    const isNew = canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio);
    const view = { width, start: viewport.start, seconds: viewport.seconds, now: viewport.now, isPaused: viewport.isPaused };
    const isStill = viewport.isPaused ? this.drawnAt === view.start : viewport.now > this.busyUntil;
    if (this.colours && isStill && !isNew && this.drawnSeconds === view.seconds) return;
    if (isNew) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    this.colours ??= coloursOf(this.element);
    this.drawnAt = view.start;
    this.drawnSeconds = view.seconds;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(context, model, lanes, view, this.colours);
  }

  /** Say what is under the pointer; while it is pressed, move the time with it. */
  point(event) {
    if (!this.model.state) return;
    const seconds = this.viewport.seconds / this.canvas.clientWidth;
    if (event.buttons & 1) {
      this.viewport.shift(-event.movementX * seconds);
      this.showPause();
    }
    const at = this.viewport.start + event.offsetX * seconds;
    const lane = this.model.drawn[Math.floor(event.offsetY / ROW)];
    const text = lane && describe(lane, at, 2 * seconds);
    this.hint.hidden = !text;
    if (!text) return;
    setText(this.hint, text);
    const left = Math.min(event.offsetX + 12, this.canvas.clientWidth - this.hint.offsetWidth);
    this.hint.style.translate = `${Math.max(0, left)}px ${event.offsetY + 16}px`;
  }
}

/** What was done in a lane at some time, give or take; empty for nothing. */
function describe(lane, at, slack) {
  const span = lane.spans.at(lane.spans.search(({ to }) => to + slack >= at));
  if (span && span.from - slack <= at) {
    const verified = span.drafts ? `, ${span.accepted} of ${span.drafts} drafts accepted` : "";
    const steps = span.steps > 1 ? ` in ${span.steps} steps` : "";
    return `${nameOf(span)}: ${span.phase}, ${counted(span.rows, "token")}${steps}, ${((span.to - span.from) * 1e3).toFixed(1)} ms${verified}`;
  }
  const piece = lane.pieces.at(lane.pieces.search(({ to }) => to + slack >= at));
  if (piece && piece.from - slack <= at) {
    const shares = Object.entries(piece.seconds).map(([phase, seconds]) => `${phase} ${(seconds * 1e3).toFixed(0)} ms`);
    return `${nameOf(piece)}: ${counted(piece.rows, "token")} in ${counted(piece.steps, "step")}, ${shares.join(", ")}`;
  }
  const stay = [...lane.stays].findLast(({ from, to }) => from <= at && at <= (to ?? Infinity));
  if (!stay) return "";
  return `${nameOf(stay)}: ${lane.kind === "slot" ? "between two steps" : "waits"}`;
}

function nameOf({ id }) {
  return id === null ? "another's" : shortName(id);
}
