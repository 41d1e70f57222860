// How a call that waits for a person is shown, in its conversation and in the inbox.

import { ago, h } from "./dom.js";
import { valueView } from "./json-view.js";

const RISKS = { high: "high", critical: "high", severe: "high", low: "low", none: "low" };

/** The risk that a tool names, in a word. */
export function riskView(risk) {
  return risk ? h("span", { className: "risk", "data-risk": RISKS[risk.toLowerCase()] ?? "some" }, `risk: ${risk}`) : null;
}

/** The arguments of a call; null if it has none. */
export function argumentsView(input) {
  const isNone = input === null || input === undefined || (typeof input === "object" && Object.keys(input).length === 0);
  return isNone ? null : h("div", { className: "arguments" }, valueView(input));
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
