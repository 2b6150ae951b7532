import assert from "node:assert/strict";
import { test } from "node:test";

import { BlockSplitter } from "../site/chat/markdown/blocks.js";
import { attached, AttachmentError, MOST_BYTES } from "../site/chat/state/attachment.js";
import { ArchiveError, readArchive, writeArchive } from "../site/chat/state/archive.js";
import { makeConversation, matches, titleOf, withTurn } from "../site/chat/state/conversation.js";
import { SentenceReader } from "../site/chat/state/sentences.js";
import { DEFAULTS } from "../site/chat/state/settings.js";
import { awaiting, makeTurn, reduceTurn } from "../site/chat/state/turn.js";
import { figuresText } from "../site/chat/view/figures.js";
import { Marked } from "../site/vendor/marked.js";

const marked = new Marked({ gfm: true, breaks: true });
const lex = (text) => marked.lexer(text);

// --- blocks -------------------------------------------------------------------------------------------------------------

const TEXTS = [
  "# Title\n\nSome *text*\nand more\n\n- a\n- b\n\n  still b\n\n1. x\n\n2. y\n\n```py\nprint(1)\n\nx\n```\n\nend",
  "1. a\n\n2\n\n2. b\n\ntext\n===\n\n> quote\nlazy\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nx",
  "See [a][b].\n\npara\n\npara\n\npara\n\n[b]: http://example.org\n",
  "    code\n\n    more\n\ntext\n\n<div>\n\n*a*\n\n</div>\n\n***\n\n- [ ] todo\n- [x] done\n\n\n\nend\r\n\r\nof it",
];

test("a text that grows by one character at a time ends with the blocks of the whole", () => {
  for (const text of TEXTS) {
    const splitter = new BlockSplitter(lex);
    let latest = [];
    for (let length = 1; length <= text.length; length += 1) latest = splitter.split(text.slice(0, length), false);
    const whole = new BlockSplitter(lex).split(text, true);
    if (!text.includes("[b]:")) {
      assert.deepEqual(latest.map(({ key }) => key), whole.map(({ key }) => key), "links are known at the end only");
    }
    assert.deepEqual(splitter.split(text, true).map(({ key }) => key), whole.map(({ key }) => key));
  }
});

test("blocks that are closed are not lexed again", () => {
  let lexed = 0;
  const splitter = new BlockSplitter((text) => { lexed += text.length; return lex(text); });
  const paragraph = "A paragraph of some words.\n\n";
  const text = paragraph.repeat(200);
  for (let length = 10; length <= text.length; length += 10) splitter.split(text.slice(0, length), false);
  assert.ok(lexed < text.length * 12, `${lexed} characters were lexed for ${text.length}`);
});

// --- turns --------------------------------------------------------------------------------------------------------------

const assistant = () => awaiting(makeTurn({ id: "a", role: "assistant", created: 1 }), 1);

test("a turn that has ended takes nothing more but receipts", () => {
  const whole = reduceTurn(assistant(), { type: "ended" });
  assert.throws(() => reduceTurn(whole, { type: "delta", at: 1, content: "x", reasoning: "", toolCalls: [] }), /whole/);
  assert.deepEqual(reduceTurn(whole, { type: "receipts", receipts: [1] }).receipts, [1]);
});

test("figures say what is known", () => {
  const figures = { sent: 1000, first: 1250, last: 2250, promptTokens: 40, cachedTokens: 32, completionTokens: 101, reasoningTokens: 0 };
  const said = "101 tokens · 100 tokens/s · first token after 0.25 s · prompt 40 tokens, 32 cached";
  assert.equal(figuresText({ figures }), said);
  assert.equal(figuresText(assistant()), "");
  assert.equal(figuresText({ figures: null }), "");
});

// --- attachments --------------------------------------------------------------------------------------------------------

test("text files are a part of the message, and others are refused", async () => {
  const file = (name, ...parts) => new File(parts, name);
  assert.equal(await attached([file("a.py", "x = 1"), file("b", "```\n````\n")]),
    "a.py\n```py\nx = 1\n```\n\nb\n`````\n```\n````\n`````");
  const refused = (said) => (error) => error instanceof AttachmentError && error.message.includes(said);
  await assert.rejects(attached([file("a.bin", new Uint8Array([0xff, 0xfe]))]), refused("a.bin is no text"));
  await assert.rejects(attached([file("nul", "a\0b")]), refused("nul is no text"));
  await assert.rejects(attached([file("long", "x".repeat(MOST_BYTES)), file("one", "x")]), refused("256 KiB"));
});

// --- archives -----------------------------------------------------------------------------------------------------------

function conversation() {
  const receipt = { request_id: "r", index: 0, reason: "client_disconnect", phase: "decode", detected_at: 1.5, last_kernel_at: null,
    slot_freed_at: 2.5, prompt_tokens: 1, cached_tokens: 0, computed_tokens: 2, kept_tokens: 1, wasted_tokens: 1, layers_after_cancel: 0 };
  const empty = makeConversation("c", 1, { ...DEFAULTS, system: "é\u2028<script>" });
  const question = makeTurn({ id: "q", role: "user", created: 2, content: "Hi" });
  const answer = { ...assistant(), parent: "q", status: "cancelled", receipts: [receipt], content: "x",
    toolCalls: [{ id: "k", name: "n", arguments: "{" }] };
  return withTurn(withTurn(empty, question), answer);
}

test("what is exported is what is imported", () => {
  const conversations = [conversation(), makeConversation("d", 1, DEFAULTS)];
  assert.deepEqual(readArchive(writeArchive(conversations)), conversations);
});

test("a file that is no archive is refused with the place", () => {
  const archive = (change) => {
    const whole = JSON.parse(writeArchive([conversation()]));
    change(whole.conversations[0], whole);
    return JSON.stringify(whole);
  };
  const refused = [
    ["{", /no JSON/],
    ["[]", /'format'/],
    [archive((_, whole) => { whole.version = 2; }), /Version 2/],
    [archive((_, whole) => { whole.conversations = {}; }), /conversations has to be a list/],
    [archive((one) => { one.turns.q.content = {}; }), /conversations\[0\]\.turns\.q\.content has to be a text/],
    [archive((one) => { one.turns.q.role = "system"; }), /role has to be one of/],
    [archive((one) => { one.turns.q.parent = "a"; }), /parent has to be a turn before it/],
    [archive((one) => { one.turns.q.id = "z"; }), /id has to be 'q'/],
    [archive((one) => { one.leaf = "z"; }), /leaf has to be one of its turns/],
    [archive((one) => { one.turns.a.receipts[0].kept_tokens = "<img>"; }), /kept_tokens has to be a number/],
    [archive((one) => { one.settings.tools = null; }), /settings\.tools has to be a text/],
  ];
  for (const [text, said] of refused) {
    assert.throws(() => readArchive(text), (error) => error instanceof ArchiveError && said.test(error.message), text.slice(0, 60));
  }
});

test("of a file only known fields are taken", () => {
  const text = writeArchive([conversation()]).replace('"id": "q"', '"id": "q", "__proto__": {"evil": 1}, "evil": 1');
  const [read] = readArchive(text);
  assert.deepEqual(read, conversation());
  assert.equal(read.turns.q.evil, undefined);
});

// --- the list, and what is said -----------------------------------------------------------------------------------------

test("a conversation is found by its title and its texts", () => {
  const found = conversation();
  assert.equal(titleOf(found), "Hi");
  assert.equal(titleOf({ ...found, title: "Named" }), "Named");
  assert.deepEqual(["hI", "named", "X", "nothing"].map((text) => matches({ ...found, title: "Named" }, text)), [true, true, true, false]);
});

test("whole sentences are said once, short ones with the next, and the rest at the end", () => {
  const reader = new SentenceReader();
  const sentences = ["This is the first sentence of it.", "No. And this is the second one of all.", "And a third"];
  const text = sentences.join(" ");
  const said = [];
  for (let length = 1; length <= text.length; length += 1) said.push(reader.push(text.slice(0, length)));
  said.push(reader.finish(text));
  assert.deepEqual(said.filter(Boolean), sentences);
});
