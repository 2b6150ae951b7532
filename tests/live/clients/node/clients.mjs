// OpenAI's own client and the AI SDK against the server whose URL is the first argument.
// Each makes a call that has to call a tool and then aborts an endless stream; a line of JSON says what it got.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const baseURL = `${process.argv[2]}/v1`;
const messages = [{ role: "user", content: "Paint it." }];
const parameters = {
  type: "object",
  properties: { colour: { enum: ["red", "green"] } },
  required: ["colour"],
  additionalProperties: false,
};

async function openai() {
  const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
  const answer = await client.chat.completions.create({
    model: "any",
    messages,
    temperature: 0,
    tools: [{ type: "function", function: { name: "paint", parameters } }],
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  const call = answer.choices[0].message.tool_calls[0].function;
  const stream = await client.chat.completions.create({
    model: "any",
    messages,
    max_tokens: 4000,
    stream: true,
    ignore_eos: true,
  });
  let id = "";
  for await (const chunk of stream) {
    id = chunk.id;
    if (chunk.choices[0].delta.content) stream.controller.abort();
  }
  return { name: call.name, arguments: JSON.parse(call.arguments), id };
}

async function aiSdk() {
  const provider = createOpenAICompatible({ name: "cede", baseURL, apiKey: "none", includeUsage: true });
  const answer = await generateText({
    model: provider("any"),
    prompt: "Paint it.",
    temperature: 0,
    tools: { paint: tool({ inputSchema: z.object({ colour: z.enum(["red", "green"]) }) }) },
    toolChoice: "required",
    maxRetries: 0,
  });
  const call = answer.toolCalls[0];
  const abort = new AbortController();
  const stream = streamText({
    model: provider("any"),
    prompt: "Paint it.",
    maxOutputTokens: 4000,
    providerOptions: { cede: { ignore_eos: true } },
    abortSignal: abort.signal,
    maxRetries: 0,
    includeRawChunks: true,
    onError: () => {},
  });
  let id = "";
  for await (const part of stream.fullStream) {
    if (part.type === "raw") id = part.rawValue.id ?? id;
    if (part.type === "text-delta") abort.abort();
  }
  return { name: call.toolName, arguments: call.input, id };
}

for (const client of [openai, aiSdk]) console.log(JSON.stringify({ client: client.name, ...(await client()) }));
