// Puts text on the clipboard, also where the page came over plain HTTP from another machine.

import { h } from "../../shared/dom.js";

/**
 * A button that copies.
 * @param {() => string} text
 * @param {string} label
 * @returns {HTMLButtonElement}
 */
export function copyButton(text, label = "Copy") {
  const button = h("button", { type: "button", class: "quiet small", onclick: copy }, label);
  async function copy() {
    await copyText(text());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  }
  return button;
}

async function copyText(text) {
  // Browsers have the newer interface in secure contexts only.
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea", { class: "unseen" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
