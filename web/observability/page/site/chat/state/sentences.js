// A growing text in whole sentences: a screen reader that was told each token would say nothing that one understands.

const END = /[.!?:;]["')\]]*\s|\n/g;
const LEAST_CHARACTERS = 30; // shorter ones are said with the next

export class SentenceReader {
  #said = 0;

  /**
   * @param {string} text  all that there is so far
   * @returns {string} what has become whole since the last call; empty if nothing has
   */
  push(text) {
    const rest = text.slice(this.#said);
    const end = [...rest.matchAll(END)].at(-1);
    if (!end || end.index + end[0].length < LEAST_CHARACTERS) return "";
    return this.#take(rest.slice(0, end.index + end[0].length));
  }

  /** @param {string} text  the whole @returns {string} what was not said yet */
  finish(text) {
    return this.#take(text.slice(this.#said));
  }

  #take(text) {
    this.#said += text.length;
    return text.trim();
  }
}
