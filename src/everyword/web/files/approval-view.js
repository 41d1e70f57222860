// How a call that waits for a person is shown, in its conversation and in the inbox.

import { ago, h } from "./dom.js";
import { valueView } from "./json-view.js";

const RISKS = { high: "high", critical: "high", severe: "high", low: "low", none: "low" };

/** The risk that a tool names, in a word. */
export function riskView(risk) {
  return risk ? h("span", { className: "risk", "data-risk": RISKS[risk.toLowerCase()] ?? "some" }, `risk: ${risk}`) : null;
}

// Characters that change the direction of a text: an argument must not be able to show another one than it is.
const DIRECTIONS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const escaped = (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** What a person is asked to allow, in one sentence, which is made of arguments; null if the tool has none. */
export function summaryView(summary) {
  return summary ? h("p", { className: "summary" }, summary.replace(DIRECTIONS, escaped)) : null;
}

/** The arguments of a call; null if it has none. */
export function argumentsView(input) {
  const isNone = input === null || input === undefined || (typeof input === "object" && Object.keys(input).length === 0);
  if (isNone) return null;
  const shown = JSON.parse(JSON.stringify(input).replace(DIRECTIONS, (found) => `\\${escaped(found)}`));
  return h("div", { className: "arguments" }, valueView(shown));
}

/** When a call is denied by itself, as text; empty for never. */
export function expiryText({ expiresAt } = {}, now = Date.now()) {
  if (!expiresAt) return "";
  return expiresAt <= now ? "expired" : `expires in ${ago(now, expiresAt)}`;
}

/** Why this page may not answer; empty if it may. */
export function whyNot({ mayAnswer = true, approvers = [] } = {}) {
  if (mayAnswer) return "";
  return approvers.length ? `Only ${approvers.join(", ")} may answer.` : "You may not answer this call.";
}
