// Text areas in which one writes what is sent: Enter sends, Shift-Enter is a new line.

import { h } from "../../shared/dom.js";

const MOST_PIXELS = 260;

/** @param {KeyboardEvent} event @returns {boolean} whether it says to send; in the middle of composing a word it does not */
export function sends(event) {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing;
}

/** Let a text area be as high as its text, up to a bound; it has to be in the page. @param {HTMLTextAreaElement} area */
export function fitHeight(area) {
  area.style.height = "auto"; // else it would never become lower
  area.style.height = `${Math.min(area.scrollHeight + 2, MOST_PIXELS)}px`; // with its border
}

/** Takes the place of a turn's text while that is edited. */
export class TextEditor {
  /**
   * @param {string} text
   * @param {string} label  of the button that ends it
   * @param {(text: string | null) => void} done  gets the text, or null where it stays as it was
   */
  constructor(text, label, done) {
    this.area = h("textarea", {
      rows: "1",
      "aria-label": "The turn's text",
      oninput: () => fitHeight(this.area),
      onkeydown: (event) => {
        if (event.key === "Escape") {
          event.stopPropagation(); // it ends the editing, not the answer
          done(null);
        } else if (sends(event)) {
          event.preventDefault();
          done(this.area.value);
        }
      },
    });
    this.area.value = text;
    this.element = h(
      "div",
      { class: "editor" },
      this.area,
      h("button", { type: "button", class: "primary", onclick: () => done(this.area.value) }, label),
      h("button", { type: "button", onclick: () => done(null) }, "Cancel"),
    );
  }

  /** Begin, once it is in the page. */
  focus() {
    fitHeight(this.area);
    this.area.focus();
    this.area.setSelectionRange(this.area.value.length, this.area.value.length);
  }
}
