// The text of an answer.  While it grows, only what can still change is rendered again.

import { h } from "../../shared/dom.js";
import { BlockSplitter } from "../markdown/blocks.js";
import { lex, renderBlock } from "../markdown/markdown.js";
import { codeBlock, furnish } from "./code.js";

/** Markdown. */
class MarkdownText {
  #splitter = new BlockSplitter(lex);
  /** @type {{key: string, element: HTMLElement}[]} */
  #shown = [];

  constructor(host) {
    this.host = host;
  }

  update(text, whole) {
    const blocks = this.#splitter.split(text, whole);
    blocks.forEach((block, place) => this.#show(block, place));
    for (const { element } of this.#shown.splice(blocks.length)) element.remove();
  }

  #show(block, place) {
    const key = `${block.closed}${block.key}`;
    const shown = this.#shown[place];
    if (shown?.key === key) return;
    // Without code or a table, closing a block changes nothing that is seen.
    if (shown && shown.key.replace(/^false/, "true") === key && !shown.element.querySelector("pre")) {
      shown.key = key;
      return;
    }
    const content = renderBlock(block.token);
    furnish(content, block.closed);
    const element = h("div", { class: "block" }, content);
    if (shown) shown.element.replaceWith(element);
    else this.host.append(element);
    this.#shown[place] = { key, element };
  }
}

/** Text as it is. */
class PlainText {
  constructor(host) {
    this.text = document.createTextNode("");
    host.append(h("div", { class: "plain" }, this.text));
  }

  update(text) {
    // Appending leaves what is there, and a selection in it, alone.
    if (text.startsWith(this.text.data)) this.text.appendData(text.slice(this.text.length));
    else this.text.data = text;
  }
}

/** JSON, which is formatted when it is whole. */
class JsonText {
  constructor(host) {
    this.host = host;
  }

  update(text, whole) {
    this.host.replaceChildren(codeBlock(whole ? formatted(text) : text, "json", whole));
  }
}

function formatted(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // it was cut short, and is shown as it came
  }
}

const KINDS = { markdown: MarkdownText, text: PlainText, json: JsonText };

/** Shows a text in one of these ways; the way may change. */
export class AnswerText {
  #kind = "";
  #seen = "";

  constructor() {
    this.element = h("div", { class: "answer" });
  }

  /**
   * @param {string} text
   * @param {"markdown" | "text" | "json"} kind
   * @param {boolean} whole
   */
  update(text, kind, whole) {
    const seen = `${whole}${text}`;
    if (kind === this.#kind && seen === this.#seen) return;
    this.#seen = seen;
    if (kind !== this.#kind) {
      this.#kind = kind;
      this.element.replaceChildren();
      this.shown = new KINDS[kind](this.element);
    }
    this.shown.update(text, whole);
  }
}
