// What a conversation asks the model with.  Fields are kept as they were typed; empty ones are the server's to choose.

/**
 * @typedef {object} Settings
 * @property {string} model
 * @property {string} system
 * @property {string} temperature
 * @property {string} topP
 * @property {string} topK
 * @property {string} minP
 * @property {string} maxTokens
 * @property {string} seed
 * @property {string} stop  one string a line
 * @property {string} effort
 * @property {string} tools  JSON: a list of tools as the API has them, or of bare functions
 * @property {string} toolChoice
 * @property {string} schema  JSON: a schema that answers are held to
 * @property {string} show  "markdown" or "text"
 */

/** @type {Settings} */
export const DEFAULTS = Object.freeze({
  model: "", system: "", temperature: "", topP: "", topK: "", minP: "", maxTokens: "", seed: "", stop: "", effort: "",
  tools: "", toolChoice: "", schema: "", show: "markdown",
});

/** The fields that are numbers, and what the API calls them. */
export const NUMBERS = Object.freeze({
  temperature: "temperature", topP: "top_p", topK: "top_k", minP: "min_p", maxTokens: "max_tokens", seed: "seed",
});

/** A field does not say what it should; the message says why. */
export class SettingsError extends Error {
  /** @param {keyof Settings} field @param {string} message */
  constructor(field, message) {
    super(message);
    this.name = "SettingsError";
    this.field = field;
  }
}

/**
 * What settings add to the body of a request.
 * @param {Settings} settings
 * @returns {object}
 * @throws {SettingsError}
 */
export function bodyOf(settings) {
  const body = {};
  if (settings.model) body.model = settings.model;
  for (const [field, name] of Object.entries(NUMBERS)) {
    if (settings[field].trim()) body[name] = parseNumber(settings, field, name);
  }
  const stop = settings.stop.split("\n").filter(Boolean);
  if (stop.length) body.stop = stop;
  if (settings.effort) body.reasoning_effort = settings.effort;
  const tools = parseTools(settings);
  if (tools.length) body.tools = tools;
  if (tools.length && settings.toolChoice) body.tool_choice = settings.toolChoice;
  const schema = parseJson(settings, "schema", "The schema");
  if (schema !== null) body.response_format = { type: "json_schema", json_schema: { name: "answer", schema } };
  return body;
}

/**
 * The first fault of the settings.
 * @param {Settings} settings
 * @returns {SettingsError | null}
 */
export function faultOf(settings) {
  try {
    bodyOf(settings);
    return null;
  } catch (error) {
    if (error instanceof SettingsError) return error;
    throw error;
  }
}

function parseNumber(settings, field, name) {
  const value = Number(settings[field]);
  if (!Number.isFinite(value)) throw new SettingsError(field, `${name} has to be a number.`);
  return value;
}

function parseJson(settings, field, what) {
  if (!settings[field].trim()) return null;
  try {
    return JSON.parse(settings[field]);
  } catch (error) {
    throw new SettingsError(field, `${what} is no JSON: ${error.message}`);
  }
}

function parseTools(settings) {
  const tools = parseJson(settings, "tools", "The list of tools");
  if (tools === null) return [];
  const list = Array.isArray(tools) ? tools : [tools];
  for (const tool of list) {
    if (typeof tool !== "object" || tool === null) throw new SettingsError("tools", "A tool has to be an object.");
  }
  return list.map((tool) => ("type" in tool && !("name" in tool) ? tool : { type: "function", function: tool }));
}
