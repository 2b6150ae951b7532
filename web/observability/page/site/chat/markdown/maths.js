// Formulas as MathML, which browsers lay out themselves: KaTeX is loaded with the first one, and its fonts and styles never.

import { purified } from "./markdown.js";

const TAGS = [
  ...["span", "math", "semantics", "annotation", "mrow", "mi", "mo", "mn", "mtext", "mspace", "msup", "msub", "msubsup"],
  ...["mfrac", "msqrt", "mroot", "munder", "mover", "munderover", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom"],
];
const ATTRIBUTES = [
  ...["display", "displaystyle", "scriptlevel", "mathvariant", "mathcolor", "stretchy", "fence", "separator", "form", "accent"],
  ...["accentunder", "lspace", "rspace", "minsize", "maxsize", "linethickness", "width", "height", "depth"],
  ...["columnalign", "columnspacing", "rowspacing", "columnlines", "rowlines", "encoding"],
];

let loading; // of the library, once it was asked for
let library = null;

/**
 * Put a formula in the place of its TeX: at once where the library is here, else when it is.  What KaTeX does not know
 * stays as it is.
 * @param {HTMLElement} element  whose text is the TeX
 * @param {boolean} display  whether it stands on a line of its own
 */
export function showFormula(element, display) {
  if (library) {
    element.replaceWith(rendered(element, display));
    return;
  }
  loading ??= import("../../vendor/katex.js").then(() => { library = self.katex; }); // which is no module, and calls itself so
  loading.then(() => element.replaceWith(rendered(element, display)));
}

function rendered(element, displayMode) {
  try {
    const options = { displayMode, output: "mathml", strict: "ignore", trust: false, maxExpand: 200, maxSize: 5 };
    return purified(library.renderToString(element.textContent, options), TAGS, ATTRIBUTES);
  } catch {
    return element;
  }
}
