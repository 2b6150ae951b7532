// OpenAI's own client and the AI SDK against the server whose URL is the first argument.
// Each asks for a short answer and then aborts an endless stream; a line of JSON says what it got.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
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
  return { tokens: answer.usage.completion_tokens, id };
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
    if (part.type === "raw") id = part.rawValue.id ?? id;
    if (part.type === "text-delta") abort.abort();
  }
  return { tokens: answer.usage.outputTokens, id };
}

for (const client of [openai, aiSdk]) console.log(JSON.stringify({ client: client.name, ...(await client()) }));
