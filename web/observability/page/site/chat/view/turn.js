// One turn, as it is shown.

/** @import { Turn } from "../state/turn.js" */

import { h, setText } from "../../shared/dom.js";
import { isLive } from "../state/turn.js";
import { AnswerText } from "./answer.js";
import { copyButton } from "./clipboard.js";
import { codeBlock } from "./code.js";
import { figuresText } from "./figures.js";
import { receiptView } from "./receipt.js";
import { TextEditor } from "./editor.js";

const NAMES = { user: "You", assistant: "Model", tool: "Tool result" };

/**
 * @typedef {object} Place  what a turn's view is shown with, beside the turn
 * @property {string[]} versions  ids of all turns at this place, this one among them
 * @property {boolean} last  whether the path ends here
 * @property {boolean} busy  whether an answer is being written
 * @property {string} show  how answers are shown: "markdown" or "text"
 * @property {string} callName  of a tool's result: which tool's
 *
 * @typedef {object} TurnActions  what its buttons do; each takes the turn's id
 * @property {(id: string, text: string) => void} resend
 * @property {(id: string, text: string) => void} rewrite
 * @property {(id: string) => void} retry
 * @property {() => void} continueAnswer
 * @property {(id: string) => void} choose
 */

export class TurnView {
  #seen = "";
  #shown = null;

  /** @param {Turn} turn @param {TurnActions} actions */
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    this.name = h("h2", {});
    this.versions = h("span", { class: "versions" });
    this.thoughts = new AnswerText();
    this.thinking = h("summary", {}, "Thoughts");
    this.reasoning = h("details", { class: "reasoning", hidden: true }, this.thinking, this.thoughts.element);
    this.text = new AnswerText();
    this.calls = h("div", { class: "calls" });
    this.outcome = h("div", { class: "outcome", hidden: true });
    this.figures = h("p", { class: "figures figure" });
    this.buttons = h("div", { class: "actions" });
    this.body = h("div", { class: "turn-body" }, this.reasoning, this.text.element, this.calls);
    this.element = h(
      "article",
      { class: `turn ${turn.role}` },
      h("header", {}, this.name, this.versions),
      this.body,
      this.outcome,
      h("footer", {}, this.figures, this.buttons),
    );
  }

  /** @param {Turn} turn @param {Place} place */
  update(turn, place) {
    const seen = JSON.stringify(place);
    if (turn === this.#shown && seen === this.#seen) return;
    this.turn = turn;
    this.#showText(turn, place);
    if (turn.toolCalls !== this.#shown?.toolCalls || isLive(turn) !== isLive(this.#shown)) this.#showCalls(turn);
    this.#showOutcome(turn);
    setText(this.figures, figuresText(turn));
    const state = `${seen}${turn.status}${Boolean(turn.content)}`;
    if (state !== this.state) this.#showButtons(turn, place);
    this.state = state;
    this.#shown = turn;
    this.#seen = seen;
  }

  #showText(turn, { show, callName }) {
    const of = turn.role === "assistant" ? turn.model : callName;
    setText(this.name, of ? `${NAMES[turn.role]}: ${of}` : NAMES[turn.role]);
    this.element.classList.toggle("live", isLive(turn));
    this.element.setAttribute("aria-busy", String(isLive(turn)));
    const whole = !isLive(turn);
    this.text.update(turn.content, this.#kindOf(turn, show), whole);
    this.text.element.hidden = !turn.content;
    this.reasoning.hidden = !turn.reasoning;
    if (turn.reasoning) this.thoughts.update(turn.reasoning, "text", whole);
    setText(this.thinking, turn.reasoning && !turn.content && isLive(turn) ? "Thinking" : "Thoughts");
  }

  #kindOf(turn, show) {
    if (turn.role !== "assistant") return "text"; // what a person typed is shown as it was typed
    return turn.format === "json" ? "json" : show;
  }

  #showCalls(turn) {
    this.calls.replaceChildren(...turn.toolCalls.map((call) => h(
      "section",
      { class: "call", "aria-label": `Call of ${call.name}` },
      h("h3", {}, "calls ", h("code", {}, call.name)),
      codeBlock(isLive(turn) ? call.arguments : pretty(call.arguments), "json", !isLive(turn)),
    )));
  }

  #showOutcome(turn) {
    const outcome = [turn.status, turn.error, turn.finish, turn.receipts.length].join();
    if (outcome === this.outcome.dataset.of) return;
    this.outcome.dataset.of = outcome;
    this.outcome.replaceChildren(...outcomeOf(turn));
    this.outcome.hidden = !this.outcome.children.length;
  }

  #showButtons(turn, place) {
    const { id, role } = turn;
    const { actions } = this;
    const idle = !place.busy;
    const mayContinue = idle && place.last && role === "assistant" && turn.content && !turn.toolCalls.length;
    this.buttons.replaceChildren(
      ...(isLive(turn) ? [] : [copyButton(() => this.turn.content)]),
      ...(idle ? [button("Edit", () => this.#edit())] : []),
      ...(idle && role === "assistant" ? [button("Retry", () => actions.retry(id))] : []),
      ...(mayContinue ? [button("Continue", () => actions.continueAnswer())] : []),
    );
    this.#showVersions(turn, place);
  }

  #showVersions({ id }, { versions, busy }) {
    const at = versions.indexOf(id);
    const step = (label, name, to) =>
      h("button", {
        type: "button", class: "quiet small", "aria-label": name, disabled: busy || !versions[to],
        onclick: () => this.actions.choose(versions[to]),
      }, label);
    this.versions.replaceChildren(...(versions.length < 2 ? [] : [
      step("‹", "Earlier version", at - 1),
      h("span", {}, `${at + 1}/${versions.length}`),
      step("›", "Later version", at + 1),
    ]));
  }

  #edit() {
    const asks = this.turn.role !== "assistant";
    const editor = new TextEditor(this.turn.content, asks ? "Send again" : "Save", (text) => {
      close();
      if (text === null) return;
      (asks ? this.actions.resend : this.actions.rewrite)(this.turn.id, text);
    });
    const close = () => {
      editor.element.replaceWith(this.body);
      this.buttons.hidden = false;
      this.buttons.querySelector("button")?.focus();
    };
    this.body.replaceWith(editor.element);
    this.buttons.hidden = true;
    editor.focus();
  }
}

function button(label, onclick) {
  return h("button", { type: "button", class: "quiet small", onclick }, label);
}

function outcomeOf(turn) {
  if (turn.status === "cancelled") return [receiptView(turn)];
  if (turn.status === "failed") return [h("p", { class: "fault" }, turn.error)];
  if (turn.finish === "length") return [h("p", { class: "hint" }, "It has reached the limit of its length.")];
  return [];
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // the model was cut off in the middle of it
  }
}
