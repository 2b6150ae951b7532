// Conversations on their way into the browser's storage.

/** @import { Conversation } from "./conversation.js" */

const SAVE_EVERY_MS = 1000; // of an answer that is still being written

/** Keeps conversations; where the storage fails, the page goes on, and `complain` says so. */
export class Keeper {
  #storage;
  #pause;
  #find;
  #complain;
  #unsaved = new Set();
  #removing = new Set();

  /**
   * @param {import("./session.js").Surroundings} surroundings
   * @param {(id: string) => Conversation | undefined} find
   * @param {(fault: string) => void} complain
   */
  constructor({ storage, pause }, find, complain) {
    this.#storage = storage;
    this.#pause = pause;
    this.#find = find;
    this.#complain = complain;
  }

  /** @returns {Promise<Conversation[]>} */
  async all() {
    return (await this.#try(() => this.#storage.all())) ?? [];
  }

  /** @param {string} id @returns {Promise<Conversation | null | undefined>} null for none, undefined for a fault */
  get(id) {
    return this.#try(() => this.#storage.get(id));
  }

  /** @param {string} id  kept as it is then, with all that changes until then */
  saveSoon(id) {
    if (this.#unsaved.has(id)) return;
    this.#unsaved.add(id);
    this.#pause(SAVE_EVERY_MS).then(() => this.#unsaved.has(id) && this.save(id));
  }

  /** @param {string} id */
  save(id) {
    this.#unsaved.delete(id);
    const conversation = this.#find(id);
    if (conversation && !this.#removing.has(id)) this.#try(() => this.#storage.put(conversation));
  }

  /** Until `done` has been called, it is not kept again. @param {string} id @param {() => void} done */
  async remove(id, done) {
    this.#removing.add(id);
    await this.#try(() => this.#storage.remove(id));
    done();
    this.#removing.delete(id);
  }

  async #try(action) {
    try {
      return await action();
    } catch (error) {
      this.#complain(`This browser does not keep conversations: ${error.message}`);
      return undefined;
    }
  }
}
