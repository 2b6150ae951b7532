// Where conversations are kept: IndexedDB, in this browser and for this origin alone.

/** @import { Conversation } from "./conversation.js" */

const DATABASE = "cede-chat";
const STORE = "conversations";

/** Conversations of an earlier visit, and those to be kept for a later one.  Other tabs are told of each change. */
export class ConversationStorage {
  /** @param {IDBDatabase} database */
  constructor(database) {
    this._database = database;
    this._tabs = new BroadcastChannel(DATABASE);
  }

  /** @returns {Promise<ConversationStorage>} @throws {DOMException} the browser keeps nothing for this page */
  static async open() {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    return new ConversationStorage(await done(request));
  }

  /** @returns {Promise<Conversation[]>} all of them */
  async all() {
    return done(this._store("readonly").getAll());
  }

  /** @param {string} id @returns {Promise<Conversation | null>} */
  async get(id) {
    return (await done(this._store("readonly").get(id))) ?? null;
  }

  /** @param {Conversation} conversation  replaces the one with its id */
  async put(conversation) {
    await this._change((store) => store.put(conversation));
    this._tabs.postMessage(conversation.id);
  }

  /** @param {string} id */
  async remove(id) {
    await this._change((store) => store.delete(id));
    this._tabs.postMessage(id);
  }

  /** @param {(id: string) => void} listener  called when another tab has put or removed a conversation */
  watch(listener) {
    this._tabs.onmessage = ({ data }) => listener(data);
  }

  /** Resolves when the change is kept: a page that is left before that takes it back. */
  _change(change) {
    const store = this._store("readwrite");
    change(store);
    return new Promise((resolve, reject) => {
      store.transaction.oncomplete = () => resolve();
      store.transaction.onabort = () => reject(store.transaction.error);
    });
  }

  _store(mode) {
    return this._database.transaction(STORE, mode).objectStore(STORE);
  }
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
