// Code with its language, a button that copies it, and colours.

import { h } from "../../shared/dom.js";
import { highlighted } from "../markdown/highlight.js";
import { showFormula } from "../markdown/maths.js";
import { copyButton } from "./clipboard.js";

/**
 * A block of code.
 * @param {string} code
 * @param {string} language  empty where none is named
 * @param {boolean} whole  only then it gets colours: they cost much, and change with each line
 * @returns {HTMLElement}
 */
export function codeBlock(code, language, whole) {
  const text = h("code", {}, code);
  const pre = h("pre", { tabindex: "0" }, text); // whoever has no mouse scrolls it with the arrow keys
  if (whole && language) {
    highlighted(code, language).then((colours) => colours && text.replaceChildren(colours));
  }
  return h(
    "figure",
    { class: "code" },
    h("figcaption", {}, h("span", {}, language || "text"), copyButton(() => code, "Copy code")),
    pre,
  );
}

/**
 * Put code blocks and formulas in the place of plain ones, and let what is wide scroll.
 * @param {DocumentFragment} fragment
 * @param {boolean} whole
 */
export function furnish(fragment, whole) {
  for (const code of fragment.querySelectorAll("pre > code")) {
    const language = /language-([^\s]+)/.exec(code.className)?.[1] ?? "";
    code.parentElement.replaceWith(codeBlock(code.textContent.replace(/\n$/, ""), language, whole));
  }
  for (const wide of fragment.querySelectorAll("table, .language-display-formula")) {
    const frame = h(wide.matches("table") ? "div" : "span", { class: "wide", tabindex: "0" });
    wide.replaceWith(frame);
    frame.append(wide);
  }
  for (const tex of fragment.querySelectorAll(".language-display-formula, .language-inline-formula")) {
    showFormula(tex, tex.matches(".language-display-formula"));
  }
}
