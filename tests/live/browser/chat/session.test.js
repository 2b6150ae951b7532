import assert from "node:assert/strict";
import { test } from "node:test";

import { openCalls, pathOf } from "../site/chat/state/conversation.js";
import { Refused } from "../site/shared/api.js";
import { SettingsError } from "../site/chat/state/settings.js";
import { makeTurn } from "../site/chat/state/turn.js";
import { BROKEN, SILENT, reached } from "../site/shared/reached.js";
import { DONE, MemoryStorage, ScriptedApi, delta, finish, openSession, until, usage } from "./surroundings.js";

const HELLO = [delta({ role: "assistant", content: "" }), delta({ content: "Hel" }), delta({ content: "lo" }), finish("stop"),
  usage(8, 2, 5), DONE];
const forever = () => new Promise(() => {});
const shown = (session) => pathOf(session.current).map(({ role, content, status }) => [role, content, status]);

test("an answer is put together from its stream, with its figures", async () => {
  const { session, api } = openSession({ answers: [HELLO] });
  await session.send("Hi");
  assert.deepEqual(shown(session), [["user", "Hi", "whole"], ["assistant", "Hello", "whole"]]);
  const { figures, requestId } = pathOf(session.current).at(-1);
  assert.equal(requestId, "request-1");
  assert.deepEqual([figures.promptTokens, figures.cachedTokens, figures.completionTokens], [8, 5, 2]);
  assert.ok(figures.sent < figures.first && figures.first < figures.last);
  assert.deepEqual(api.bodies[0].messages, [{ role: "user", content: "Hi" }]);
  assert.equal(api.bodies[0].prompt_cache_key, session.currentId);
});

test("a stopped answer keeps its text and gets its receipt", async () => {
  const { session, api } = openSession({ answers: [[delta({ content: "Hel" }), forever]] });
  api.receipts = [{ request_id: "request-1", reason: "client_disconnect" }];
  const sent = session.send("Hi");
  await until(session, () => pathOf(session.current).at(-1).content === "Hel");
  session.stop();
  await sent;
  assert.deepEqual(shown(session).at(-1), ["assistant", "Hel", "cancelled"]);
  assert.deepEqual(pathOf(session.current).at(-1).receipts, api.receipts);
  assert.deepEqual(api.asked.slice(-2), ["v1/requests/request-1", "v1/receipts?request_id=request-1&wait=30"]);
  assert.equal(session.busy, false);
});

test("a cancel by somebody else is told from a limit that was reached", async () => {
  const { session } = openSession({
    answers: [[delta({ content: "Hel" }), finish("length", { cede: { cancelled: "operator" } }), usage(8, 1, 0), DONE]],
  });
  await session.send("Hi");
  const turn = pathOf(session.current).at(-1);
  assert.deepEqual([turn.status, turn.finish, turn.figures.promptTokens], ["cancelled", "operator", 8]);
});

test("a server that holds no more answers for those who come back is asked for one that it does not hold", async () => {
  const { session, api } = openSession({ answers: [new Refused(503, { message: "Full.", code: "background_full" }), HELLO] });
  await session.send("Hi");
  assert.equal(shown(session).at(-1)[1], "Hello");
  assert.deepEqual(api.bodies.map(({ cede }) => cede?.grace_s), [5, undefined]);
});

test("a refusal, an error in the stream and a stream that breaks off fail the answer, not the page", async () => {
  const { session } = openSession({
    answers: [new Error("No such model."), [delta({ content: "a" }), { error: { message: "A fault." } }], [delta({ content: "b" })]],
  });
  for (const said of ["No such model.", "A fault.", "before the answer was whole"]) {
    await session.send("Hi");
    const turn = pathOf(session.current).at(-1);
    assert.equal(turn.status, "failed");
    assert.ok(turn.error.includes(said), turn.error);
  }
});

test("a server that is gone is said to be, and what was written is kept", async () => {
  const gone = () => Promise.reject(new TypeError("Failed to fetch"));
  const { session, api } = openSession({
    answers: [await reached(gone(), SILENT).catch((error) => error), [delta({ content: "a" }), forever]],
  });
  await session.send("Hi");
  const [question, answer] = pathOf(session.current);
  assert.equal(question.content, "Hi");
  assert.equal(answer.error, "The server does not answer. What is here is kept; Retry asks again.");
  const retried = session.retry(answer.id);
  await until(session, () => pathOf(session.current).at(-1).content === "a");
  api.json = () => reached(gone(), SILENT);
  session.stop();
  await retried; // no receipt is to be had, and nobody complains of that
  assert.equal(pathOf(session.current).at(-1).status, "cancelled");
});

test("only what the network does is said to be its fault", async () => {
  await assert.rejects(reached(Promise.reject(new SyntaxError("odd")), BROKEN), SyntaxError);
  assert.equal(await reached(Promise.resolve(3), BROKEN), 3);
});

test("editing and retrying add versions, and nothing is lost", async () => {
  const { session, api } = openSession({ answers: [HELLO, HELLO, HELLO] });
  await session.send("one");
  const [question, answer] = pathOf(session.current);
  await session.resend(question.id, "two");
  assert.deepEqual(shown(session).map(([, content]) => content), ["two", "Hello"]);
  session.choose(question.id);
  assert.deepEqual(pathOf(session.current), [question, answer]);
  await session.retry(answer.id);
  assert.equal(Object.keys(session.current.turns).length, 5);
  assert.deepEqual(api.bodies.map((body) => body.messages.map((message) => message.content)), [["one"], ["two"], ["one"]]);
  session.rewrite(pathOf(session.current).at(-1).id, "mine");
  assert.deepEqual(shown(session).at(-1), ["assistant", "mine", "whole"]);
});

test("to continue appends to the same turn", async () => {
  const { session, api } = openSession({ answers: [HELLO, [delta({ content: " there" }), finish("stop"), DONE]] });
  await session.send("Hi");
  await session.continueAnswer();
  assert.deepEqual(shown(session).at(-1), ["assistant", "Hello there", "whole"]);
  assert.equal(api.bodies[1].continue_final_message, true);
  assert.deepEqual(api.bodies[1].messages.at(-1), { role: "assistant", content: "Hello" });
});

test("calls are put together, and their results are sent", async () => {
  const piece = (index, fields) => delta({ tool_calls: [{ index, ...fields }] });
  const { session, api } = openSession({
    answers: [[
      piece(0, { id: "a", type: "function", function: { name: "look", arguments: "" } }),
      piece(0, { function: { arguments: '{"at":' } }), piece(0, { function: { arguments: "1}" } }),
      piece(1, { id: "b", type: "function", function: { name: "look", arguments: "{}" } }),
      finish("tool_calls"), DONE,
    ], HELLO],
  });
  session.configure({ tools: '[{"name": "look", "parameters": {"type": "object"}}]' });
  await session.send("Look");
  const calls = openCalls(session.current);
  assert.deepEqual(calls, [{ id: "a", name: "look", arguments: '{"at":1}' }, { id: "b", name: "look", arguments: "{}" }]);
  await session.answerCalls(["one", "two"]);
  assert.deepEqual(openCalls(session.current), []);
  const { messages, tools } = api.bodies[1];
  assert.deepEqual(tools, [{ type: "function", function: { name: "look", parameters: { type: "object" } } }]);
  assert.equal(messages[1].content, null);
  assert.deepEqual(messages.slice(2), [
    { role: "tool", tool_call_id: "a", content: "one" }, { role: "tool", tool_call_id: "b", content: "two" },
  ]);
  await session.resend(pathOf(session.current)[2].id, "other");
  assert.deepEqual(openCalls(session.current).map((call) => call.id), ["b"], "the other result is asked for again");
});

test("settings at fault change nothing", async () => {
  const { session, api } = openSession({ answers: [HELLO] });
  session.configure({ schema: "{" });
  await assert.rejects(session.send("Hi"), (error) => error instanceof SettingsError && error.field === "schema");
  assert.deepEqual([session.current.turns, session.conversations, api.bodies], [{}, [], []]);
});

/** A session that is left in the middle of an answer, and the one after the reload. */
async function reloaded(answers) {
  const storage = new MemoryStorage();
  const before = openSession({ answers: [[delta({ role: "assistant" }), delta({ content: "Hel" }), forever]], storage });
  before.session.send("Hi");
  await until(before.session, () => pathOf(before.session.current).at(-1)?.content === "Hel");
  storage.kept.set(before.session.currentId, before.session.current); // as it is kept each second
  const after = openSession({ answers, storage });
  after.api.receipts = [{ request_id: "request-1", reason: "client_disconnect" }];
  await after.session.load(before.session.currentId);
  return after;
}

test("a reload shows what was shown, and takes the answer up again behind the last event that is in it", async () => {
  const { session, api } = await reloaded([[delta({ content: "lo" }), finish("stop"), usage(8, 2, 5), DONE]]);
  assert.deepEqual(shown(session), [["user", "Hi", "whole"], ["assistant", "Hello", "whole"]]);
  assert.ok(api.asked.includes("v1/requests/request-1/stream?after=1"));
  const { completionTokens, first, last } = pathOf(session.current).at(-1).figures;
  assert.deepEqual([completionTokens, first !== null, last], [2, true, null], "how fast it was written nobody saw");
});

test("an answer to which a reload comes back too late is accounted for", async () => {
  const after = await reloaded([new Refused(404, { message: "Gone.", code: "request_not_found" })]);
  assert.deepEqual(shown(after.session), [["user", "Hi", "whole"], ["assistant", "Hel", "cancelled"]]);
  assert.deepEqual(pathOf(after.session.current).at(-1).receipts, after.api.receipts);
});

test("conversations are named, found, and removed with the answer that is being written", async () => {
  const { session, storage } = openSession({ answers: [[delta({ content: "Hel" }), forever]] });
  const sent = session.send("Hi");
  await until(session, () => session.busy && pathOf(session.current).at(-1).status === "streaming");
  const id = session.currentId;
  session.rename(id, " A name ");
  assert.equal(session.current.title, "A name");
  await session.remove(id);
  await sent;
  assert.deepEqual([session.conversations, storage.kept.size, session.busy], [[], 0, false]);
});

test("what is being removed is shown until it is no longer kept, and is not kept again", async () => {
  const { session, storage } = openSession({ answers: [[delta({ content: "Hel" }), forever]] });
  const sent = session.send("Hi");
  await until(session, () => session.busy && pathOf(session.current).at(-1).status === "streaming");
  let keptNoLonger;
  storage.remove = (id) => new Promise((resolve) => {
    storage.kept.delete(id);
    keptNoLonger = resolve;
  });
  const removed = session.remove(session.currentId);
  await sent; // which the removal has stopped, and whose end is saved otherwise
  assert.deepEqual([session.conversations.length, storage.kept.size], [1, 0]);
  keptNoLonger();
  await removed;
  assert.deepEqual([session.conversations, storage.kept.size], [[], 0]);
});

test("a storage that fails is told of, and the chat goes on", async () => {
  const refuse = async () => { throw new Error("no room"); };
  const storage = { all: refuse, put: refuse, watch: () => {} };
  const { session } = openSession({ answers: [HELLO], storage });
  await session.load();
  await session.send("Hi");
  assert.match(session.fault, /no room/);
  assert.equal(shown(session).at(-1)[1], "Hello");
});

test("what another tab writes is added, and what is written here stays", async () => {
  const { session, storage } = openSession({ answers: [HELLO] });
  await session.send("Hi");
  const id = session.currentId;
  const mine = Object.keys(session.current.turns);
  const other = makeTurn({ id: "other", role: "user", created: 1, content: "From there" });
  storage.kept.set(id, { ...session.current, title: "Named there", turns: { other }, leaf: "other" });
  await storage.otherTabChanged(id);
  assert.deepEqual(Object.keys(session.current.turns), [...mine, "other"]);
  assert.deepEqual([session.current.title, shown(session).at(-1)[1]], ["Named there", "Hello"]);
  storage.kept.delete(id);
  await storage.otherTabChanged(id);
  assert.deepEqual([session.conversations, session.current.turns], [[], {}]);
});

test("an answer goes on while another conversation is shown", async () => {
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  const { session } = openSession({ answers: [[delta({ content: "Hel" }), () => gate, delta({ content: "lo" }), finish("stop"), DONE]] });
  const sent = session.send("Hi");
  const id = session.currentId;
  await until(session, () => pathOf(session.current).at(-1).content === "Hel");
  session.startNew();
  assert.equal(session.busy, false);
  go();
  await sent;
  session.show(id);
  assert.deepEqual(shown(session).at(-1), ["assistant", "Hello", "whole"]);
});

test("the scripted server is asked with the model's name where one is chosen", async () => {
  const { session, api } = openSession({ answers: [HELLO] });
  assert.ok(api instanceof ScriptedApi);
  session.configure({ model: "other", system: "Be brief.", stop: "a\nb", temperature: "0", effort: "low" });
  await session.send("Hi");
  const { model, messages, stop, temperature, reasoning_effort: effort } = api.bodies[0];
  assert.deepEqual([model, messages[0], stop, temperature, effort],
    ["other", { role: "system", content: "Be brief." }, ["a", "b"], 0, "low"]);
});
