// Code with its syntax in colours.  A language's grammar is loaded when it is first met.

import { purified } from "./markdown.js";

/** The grammars that are there, each loaded by its function. */
const GRAMMARS = {
  bash: () => import("../../vendor/highlight/bash.js"),
  c: () => import("../../vendor/highlight/c.js"),
  cpp: () => import("../../vendor/highlight/cpp.js"),
  css: () => import("../../vendor/highlight/css.js"),
  diff: () => import("../../vendor/highlight/diff.js"),
  go: () => import("../../vendor/highlight/go.js"),
  java: () => import("../../vendor/highlight/java.js"),
  javascript: () => import("../../vendor/highlight/javascript.js"),
  json: () => import("../../vendor/highlight/json.js"),
  python: () => import("../../vendor/highlight/python.js"),
  rust: () => import("../../vendor/highlight/rust.js"),
  sql: () => import("../../vendor/highlight/sql.js"),
  typescript: () => import("../../vendor/highlight/typescript.js"),
  xml: () => import("../../vendor/highlight/xml.js"),
  yaml: () => import("../../vendor/highlight/yaml.js"),
};

/** Other names that fences give them. */
const ALIASES = new Map(Object.entries({
  sh: "bash", shell: "bash", zsh: "bash", console: "bash", h: "c", "c++": "cpp", cc: "cpp", patch: "diff", golang: "go",
  js: "javascript", jsx: "javascript", mjs: "javascript", jsonc: "json", py: "python", python3: "python", rs: "rust",
  ts: "typescript", tsx: "typescript", html: "xml", svg: "xml", yml: "yaml",
}));

const MOST_CHARACTERS = 100_000; // more would hold up the page

let loaded; // of the library, once it was asked for

/**
 * The code as elements.
 * @param {string} code
 * @param {string} language  as a fence names it
 * @returns {Promise<DocumentFragment | null>} null where the language is not known, or the code too long
 */
export async function highlighted(code, language) {
  const asked = language.toLowerCase();
  const name = ALIASES.get(asked) ?? asked;
  if (!Object.hasOwn(GRAMMARS, name) || code.length > MOST_CHARACTERS) return null;
  loaded ??= import("../../vendor/highlight/core.js");
  const { default: library } = await loaded;
  if (!library.getLanguage(name)) library.registerLanguage(name, (await GRAMMARS[name]()).default);
  return purified(library.highlight(code, { language: name }).value, ["span"]);
}
