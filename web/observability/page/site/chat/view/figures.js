// What an answer took, in words.

import { counted } from "../../shared/counted.js";

/** @import { Turn } from "../state/turn.js" */

/**
 * @param {Turn} turn
 * @returns {string} empty where nothing is known
 */
export function figuresText(turn) {
  const { figures } = turn;
  if (!figures) return "";
  const parts = [];
  if (figures.completionTokens !== null) parts.push(counted(figures.completionTokens, "token"));
  if (figures.reasoningTokens) parts.push(`${figures.reasoningTokens} of them thought`);
  const speed = tokensPerSecond(figures);
  if (speed !== null) parts.push(`${speed.toFixed(speed < 10 ? 1 : 0)} tokens/s`);
  if (figures.first !== null) parts.push(`first token after ${((figures.first - figures.sent) / 1e3).toFixed(2)} s`);
  if (figures.promptTokens !== null) {
    const cached = figures.cachedTokens === null ? "" : `, ${figures.cachedTokens} cached`;
    parts.push(`prompt ${counted(figures.promptTokens, "token")}${cached}`);
  }
  return parts.join(" · ");
}

/** @param {import("../state/turn.js").Figures} figures @returns {number | null} null where too little came to say */
export function tokensPerSecond({ first, last, completionTokens }) {
  if (first === null || last === null || completionTokens === null || completionTokens < 2 || last <= first) return null;
  return (completionTokens - 1) / ((last - first) / 1e3);
}
