// OpenAI's own client and the AI SDK, over OpenAI's API and over Anthropic's, against the server whose URL is the first
// argument.  Each asks for a short answer and then aborts an endless stream; a line of JSON says what it got.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";

const baseURL = `${process.argv[2]}/v1`;
const asked = { model: "any", messages: [{ role: "user", content: "Paint it." }], ignore_eos: true };

async function openai() {
  const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
  const answer = await client.chat.completions.create({ ...asked, max_tokens: 3 });
  const stream = await client.chat.completions.create({ ...asked, max_tokens: 4000, stream: true });
  let id = "";
  for await (const chunk of stream) {
    id = chunk.id;
    if (chunk.choices[0].delta.content) stream.controller.abort();
  }
  return { tokens: answer.usage.completion_tokens, ids: [id] };
}

// Abort an endless stream at the first part of this type, and return the request's id, which a raw part has.
async function aborted(common, type, idOf) {
  const abort = new AbortController();
  const stream = streamText({
    ...common,
    maxOutputTokens: 4000,
    abortSignal: abort.signal,
    includeRawChunks: true,
    onError: () => {},
  });
  let id = "";
  for await (const part of stream.fullStream) {
    if (part.type === "raw") id = idOf(part.rawValue) ?? id;
    if (part.type === type) abort.abort();
  }
  return id;
}

async function aiSdk() {
  const provider = createOpenAICompatible({ name: "cede", baseURL, apiKey: "none", includeUsage: true });
  const common = {
    model: provider("any"),
    prompt: "Paint it.",
    providerOptions: { cede: { ignore_eos: true } },
    maxRetries: 0,
  };
  const answer = await generateText({ ...common, maxOutputTokens: 3 });
  const id = await aborted(common, "text-delta", (chunk) => chunk.id);
  return { tokens: answer.usage.outputTokens, ids: [id] };
}

async function aiSdkAnthropic() {
  // The provider has no way for a field that Anthropic's API lacks.
  const withField = (url, init) => {
    const body = JSON.stringify({ ...JSON.parse(init.body), ignore_eos: true });
    return fetch(url, { ...init, body });
  };
  const provider = createAnthropic({ baseURL, apiKey: "none", fetch: withField });
  const common = { model: provider("any"), prompt: "Paint it.", maxRetries: 0 };
  const answer = await generateText({ ...common, maxOutputTokens: 3 });

  const properties = { colour: { type: "string", enum: ["red", "blue"] } };
  const inputSchema = jsonSchema({ type: "object", properties, required: ["colour"], additionalProperties: false });
  const tools = { paint: tool({ description: "Paints.", inputSchema }) };
  const calling = { ...common, tools, toolChoice: { type: "tool", toolName: "paint" }, maxOutputTokens: 400 };
  const whole = await generateText(calling);
  const stream = streamText(calling);
  let deltas = "";
  for await (const part of stream.fullStream) if (part.type === "tool-input-delta") deltas += part.delta;
  const calls = [...whole.toolCalls, ...(await stream.toolCalls)].map(({ toolName, input }) => ({ toolName, input }));
  const finishReasons = [whole.finishReason, await stream.finishReason];

  // The arguments of this tool have no end, so that the abort comes in the middle of a call.
  const text = { type: "string", minLength: 9000 };
  const endless = tool({ inputSchema: jsonSchema({ type: "object", properties: { text }, required: ["text"] }) });
  const idOf = (event) => event.message?.id;
  const ids = [
    await aborted(common, "text-delta", idOf),
    await aborted({ ...common, tools: { endless }, toolChoice: "required" }, "tool-input-delta", idOf),
  ];
  return { tokens: answer.usage.outputTokens, ids, calls, deltas, finishReasons };
}

for (const client of [openai, aiSdk, aiSdkAnthropic]) {
  console.log(JSON.stringify({ client: client.name, ...(await client()) }));
}
