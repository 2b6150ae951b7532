// Markdown that grows, as blocks.  Blocks that can no longer change are neither lexed nor rendered again.

/**
 * @typedef {object} Block
 * @property {string} key  blocks with the same key look the same
 * @property {object} token  as the lexer has it
 * @property {boolean} closed  whether what follows in a growing text cannot change it
 */

// The last block can become another one with each character ("a", then "a\n==="), and the one before it can take the
// last one in: "1. a\n\n2" is a list and a paragraph, "1. a\n\n2. b" is a list.
const OPEN_BLOCKS = 2;

export class BlockSplitter {
  #lex;
  #text = "";
  /** @type {Block[]} */
  #closed = [];
  #offset = 0;

  /** @param {(text: string) => object[] & {links: object}} lex  marked's lexer */
  constructor(lex) {
    this.#lex = lex;
  }

  /**
   * @param {string} text  all that there is so far
   * @param {boolean} whole  whether nothing follows: then all of it is lexed, for a link may be defined at the end
   * @returns {Block[]}
   */
  split(text, whole) {
    const normal = text.replaceAll("\r\n", "\n");
    if (whole || !normal.startsWith(this.#text)) this.#restart();
    this.#text = normal;
    const tokens = this.#lex(normal.slice(this.#offset));
    const links = Object.keys(tokens.links).length ? JSON.stringify(tokens.links) : "";
    const blocks = tokens.filter(({ type }) => type !== "space").map((token) => ({ key: token.raw + links, token, closed: true }));
    if (whole) return blocks;
    const open = blocks.splice(-OPEN_BLOCKS);
    this.#closed.push(...blocks);
    if (blocks.length) this.#offset += lengthUpTo(tokens, open[0].token);
    return [...this.#closed, ...open.map((block) => ({ ...block, closed: false }))];
  }

  #restart() {
    this.#closed = [];
    this.#offset = 0;
  }
}

/** The characters of the tokens before one of them. */
function lengthUpTo(tokens, last) {
  let length = 0;
  for (const token of tokens) {
    if (token === last) break;
    length += token.raw.length;
  }
  return length;
}
