// A conversation: a tree of turns, of which one path is shown.  Editing or retrying adds a branch; nothing is overwritten.
// Pure, as turn.js.

/** @import { Turn } from "./turn.js" */
/** @import { Settings } from "./settings.js" */

/**
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} title  empty: the first message stands for it
 * @property {number} created  milliseconds since the epoch
 * @property {number} changed
 * @property {Settings} settings
 * @property {Record<string, Turn>} turns  by id, in the order in which they were made
 * @property {string | null} leaf  the last turn of the path that is shown
 */

import { isLive, reduceTurn } from "./turn.js";

const TITLE_CHARACTERS = 60;

/**
 * @param {string} id
 * @param {number} created
 * @param {Settings} settings
 * @returns {Conversation}
 */
export function makeConversation(id, created, settings) {
  return { id, title: "", created, changed: created, settings, turns: {}, leaf: null };
}

/**
 * The turns from the first to one of them.
 * @param {Conversation} conversation
 * @param {string | null} leaf  the last one; left out, that of the path which is shown
 * @returns {Turn[]}
 */
export function pathOf(conversation, leaf = conversation.leaf) {
  const path = [];
  for (let id = leaf; id !== null; id = conversation.turns[id].parent) path.push(conversation.turns[id]);
  return path.reverse();
}

/** @param {Conversation} conversation @param {string | null} parent @returns {Turn[]} what follows a turn, oldest first */
export function childrenOf(conversation, parent) {
  return Object.values(conversation.turns).filter((turn) => turn.parent === parent);
}

/**
 * The versions of one place in the conversation.
 * @param {Conversation} conversation
 * @returns {Map<string, string[]>} by the id of each turn: the ids of all that follow the same turn as it, oldest first
 */
export function versionsOf(conversation) {
  const byParent = new Map();
  for (const turn of Object.values(conversation.turns)) {
    if (!byParent.has(turn.parent)) byParent.set(turn.parent, []);
    byParent.get(turn.parent).push(turn.id);
  }
  return new Map(Object.values(conversation.turns).map((turn) => [turn.id, byParent.get(turn.parent)]));
}

/** @param {Conversation} conversation @param {Turn} turn @returns {Conversation} with the turn in it, and shown */
export function withTurn(conversation, turn) {
  return {
    ...conversation, changed: turn.created, leaf: turn.id, turns: { ...conversation.turns, [turn.id]: turn },
  };
}

/** @param {Conversation} conversation @param {Turn} turn one that it has, changed @returns {Conversation} */
export function withChanged(conversation, turn) {
  return { ...conversation, turns: { ...conversation.turns, [turn.id]: turn } };
}

/**
 * What another tab has kept of a conversation, with this tab's turns.  Turns are only ever added, so those of both are
 * there, whoever wrote last.
 * @param {Conversation} kept
 * @param {Conversation} mine  its path is shown
 * @param {boolean} writing  whether an answer is being written here, so that `mine` knows more of it
 * @returns {Conversation}
 */
export function withOthers(kept, mine, writing) {
  return { ...kept, turns: { ...mine.turns, ...kept.turns, ...(writing && mine.turns) }, leaf: mine.leaf ?? kept.leaf };
}

/**
 * The conversation when nobody writes to it any more.
 * @param {Conversation} conversation
 * @param {Turn | null} [kept]  the turn to which somebody does
 * @returns {Conversation}
 */
export function withoutLive(conversation, kept = null) {
  const live = Object.values(conversation.turns).filter((turn) => isLive(turn) && turn !== kept);
  return live.reduce((rest, turn) => withChanged(rest, reduceTurn(turn, { type: "stopped" })), conversation);
}

/**
 * The conversation with another path shown: the one through a turn that goes on with the latest version at each place.
 * @param {Conversation} conversation
 * @param {string} id
 * @returns {Conversation}
 */
export function withChosen(conversation, id) {
  let leaf = id;
  for (let next = childrenOf(conversation, leaf); next.length; next = childrenOf(conversation, leaf)) {
    leaf = next.at(-1).id;
  }
  return { ...conversation, leaf };
}

/** @param {Conversation} conversation @returns {string} what a list shows */
export function titleOf(conversation) {
  if (conversation.title) return conversation.title;
  const first = Object.values(conversation.turns).find((turn) => turn.role === "user");
  const words = (first?.content ?? "").trim().replace(/\s+/g, " ");
  if (!words) return "New conversation";
  return words.length <= TITLE_CHARACTERS ? words : `${words.slice(0, TITLE_CHARACTERS - 1)}…`;
}

/** @param {Conversation} conversation @param {string} text @returns {boolean} whether its title or a turn has the text */
export function matches(conversation, text) {
  const sought = text.trim().toLowerCase();
  const has = (value) => value.toLowerCase().includes(sought);
  return has(titleOf(conversation)) || Object.values(conversation.turns).some((turn) => has(turn.content));
}

/**
 * The calls at the end of the path that have no result yet.
 * @param {Conversation} conversation
 * @returns {import("./turn.js").ToolCall[]}
 */
export function openCalls(conversation) {
  const path = pathOf(conversation);
  const last = path.findLastIndex((turn) => turn.role !== "tool");
  if (last < 0 || path[last].role !== "assistant") return [];
  const answered = new Set(path.slice(last + 1).map((turn) => turn.toolCallId));
  return path[last].toolCalls.filter((call) => !answered.has(call.id));
}
