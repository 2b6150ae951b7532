// Markdown as elements of the page.  What a model writes may be meant to attack: markup in it is shown as text, and what
// the renderer makes goes through DOMPurify with a short list of what may be there.

import DOMPurify from "../../vendor/purify.js";
import { Marked } from "../../vendor/marked.js";

const HEADING_DEPTH = 2; // headings of an answer stand below those of the page

const TAGS = [
  ...["p", "br", "hr", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "pre", "code", "span"],
  ...["strong", "em", "del", "a", "table", "thead", "tbody", "tr", "th", "td"],
];
const ATTRIBUTES = ["href", "title", "class", "start", "align"];
const ADDRESSES = /^(?:https?|mailto):/i;
const CLASSES = /^(?:hljs-\S+|language-\S+|\w+_)$/; // highlight.js writes `hljs-title function_`

// Formulas, as pandoc knows them, so that prices stay prices.  The bounds are for texts that only begin some.
const DISPLAYED = ["display", /^(?:\$\$((?:(?!\n\n)[^$]){1,2000}?)\$\$|\\\[((?:(?!\n\n)[^]){1,2000}?)\\\])/];
const INLINE = ["inline", /^(?:\$(?![\s$])((?:\\.|[^\\$\n]){1,2000}?)(?<!\s)\$(?!\d)|\\\(((?:(?!\n\n)[^]){1,2000}?)\\\))/];

/** What makes marked see formulas, in its blocks or in its lines. */
function formulas(level, beginning, kinds) {
  const type = `${level}-formula`;
  return {
    name: type,
    level,
    start: (text) => beginning.exec(text)?.index,
    tokenizer(text) {
      for (const [kind, pattern] of kinds) {
        const found = pattern.exec(text);
        if (found) return { type, kind, raw: found[0], text: (found[1] ?? found[2]).trim() };
      }
      return undefined;
    },
    renderer({ kind, text }) {
      const tex = `<code class="language-${kind}-formula">${escaped(text)}</code>`;
      return level === "block" ? `<p>${tex}</p>` : tex;
    },
  };
}

const marked = new Marked({
  extensions: [
    formulas("block", /(?<=\n)(?:\$\$|\\\[)/, [DISPLAYED]),
    formulas("inline", /\$|\\[([]/, [DISPLAYED, INLINE]),
  ],
  gfm: true,
  breaks: true, // a model that writes a line break means one
  renderer: {
    html: ({ text }) => escaped(text),
    // A picture of another server would tell it who reads this; its address is shown instead.
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    heading({ tokens, depth }) {
      const level = Math.min(depth + HEADING_DEPTH, 6);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
  },
});

/** Marked's lexer: a text as tokens, those of blocks at the top. */
export const lex = (text) => marked.lexer(text);

/**
 * A block as elements.
 * @param {object} token
 * @returns {DocumentFragment}
 */
export function renderBlock(token) {
  const fragment = purified(marked.parser([token]), TAGS);
  for (const link of fragment.querySelectorAll("a")) {
    if (!ADDRESSES.test(link.getAttribute("href") ?? "")) link.removeAttribute("href");
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  return fragment;
}

/**
 * HTML as elements, of which only those that are named are there.
 * @param {string} html
 * @param {string[]} tags
 * @param {string[]} [attributes]
 * @returns {DocumentFragment}
 */
export function purified(html, tags, attributes = ATTRIBUTES) {
  const fragment = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: tags,
    ALLOWED_ATTR: attributes,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
  // A class of the page's own would let an answer look like a part of it.
  for (const element of fragment.querySelectorAll("[class]")) {
    element.className = [...element.classList].filter((name) => CLASSES.test(name)).join(" ");
  }
  return fragment;
}

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
