// The path that is shown of a conversation, and what is said of it to screen readers.

/** @import { ChatSession } from "../state/session.js" */

import { h } from "../../shared/dom.js";
import { openCalls, pathOf, versionsOf } from "../state/conversation.js";
import { SentenceReader } from "../state/sentences.js";
import { isLive } from "../state/turn.js";
import { ResultsForm } from "./results.js";
import { TurnView } from "./turn.js";

const NEAR_THE_END = 48; // pixels: who has scrolled up further is reading there
const SPOKEN_KEPT = 6;

const EXAMPLES = [
  "Explain in three sentences how a language model writes.",
  "Write a Python function that merges two sorted lists, with a test.",
  "Give me a table of five rivers: name, continent, length.",
];

export class Transcript {
  /** @type {Map<string, TurnView>} */
  #views = new Map();
  #conversationId = "";
  #reader = null;
  #spokenOf = "";

  /**
   * @param {import("./turn.js").TurnActions & {answerCalls: (results: string[]) => void, send: (text: string) => void}} actions
   * @param {(sentence: string) => void} announce
   */
  constructor(actions, announce) {
    this.actions = actions;
    this.announce = announce;
    this.turns = h("div", { class: "turns" });
    this.results = new ResultsForm(actions.answerCalls);
    this.welcome = h("div", { class: "welcome" },
      h("p", { class: "lead" }, "What would you like to ask?"),
      h("p", {}, "The model that this server serves answers. Conversations stay in this browser."),
      h("ul", { class: "examples", "aria-label": "Examples" }, EXAMPLES.map((text) =>
        h("li", {}, h("button", { type: "button", onclick: () => actions.send(text) }, text)))),
      h("p", { class: "hint" }, "Enter sends, Shift-Enter is a new line, Esc stops the answer. Text files can be dropped here."));
    // A log would read each token aloud as it comes, so this one is silent, and another one gets whole sentences.
    this.element = h("div", { class: "transcript", role: "log", "aria-live": "off", "aria-label": "Conversation", tabindex: "0" },
      this.welcome, this.turns, this.results.element);
    this.spoken = h("div", { class: "unseen spoken", role: "log", "aria-label": "The answer as it comes" });
  }

  /** @param {ChatSession} session */
  update(session) {
    const conversation = session.current;
    if (conversation.id !== this.#conversationId) this.#clear(conversation.id);
    const atEnd = this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < NEAR_THE_END;
    const path = pathOf(conversation);
    this.#showTurns(conversation, path, session.busy);
    this.results.update(session.busy ? [] : openCalls(conversation));
    this.welcome.hidden = path.length > 0;
    if (atEnd) this.element.scrollTop = this.element.scrollHeight;
    this.#speak(path.at(-1));
  }

  #clear(id) {
    this.#conversationId = id;
    this.#views.clear();
    this.turns.replaceChildren();
    this.#reader = null;
    this.#spokenOf = "";
    requestAnimationFrame(() => { this.element.scrollTop = this.element.scrollHeight; });
  }

  #showTurns(conversation, path, busy) {
    const versions = versionsOf(conversation);
    const calls = new Map(path.flatMap((turn) => turn.toolCalls).map((call) => [call.id, call.name]));
    const shown = path.map((turn, place) => {
      const view = this.#views.get(turn.id) ?? new TurnView(turn, this.actions);
      this.#views.set(turn.id, view);
      view.update(turn, {
        versions: versions.get(turn.id),
        last: place === path.length - 1,
        busy,
        show: conversation.settings.show,
        callName: calls.get(turn.toolCallId) ?? "",
      });
      return view.element;
    });
    const here = [...this.turns.children];
    if (here.length !== shown.length || here.some((element, place) => element !== shown[place])) {
      this.turns.replaceChildren(...shown);
    }
  }

  /** Say what has become whole of the answer that is being written, and how it ended. */
  #speak(turn) {
    if (turn && isLive(turn)) {
      if (this.#spokenOf !== turn.id) {
        this.#reader = new SentenceReader();
        this.#reader.finish(turn.content); // what was there before it went on
        this.#spokenOf = turn.id;
      }
      this.#say(this.#reader.push(turn.content));
    } else if (turn && this.#spokenOf === turn.id) {
      this.#say(this.#reader.finish(turn.content));
      this.#spokenOf = "";
      this.announce({ whole: "The answer is complete.", cancelled: "The answer was stopped.", failed: `It failed: ${turn.error}` }[turn.status]);
    }
  }

  #say(text) {
    if (!text) return;
    this.spoken.append(h("p", {}, text));
    while (this.spoken.children.length > SPOKEN_KEPT) this.spoken.firstChild.remove();
  }
}
