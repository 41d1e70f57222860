// Renders tool calls: input, output, and the buttons for approvals and answers; and agents that work as tools.

import { argumentsView, expiryText, riskView, summaryView, whyNot } from "./approval-view.js";
import { h, icon, onceClicked, setAttribute, setClass, setText } from "./dom.js";
import { toolName } from "./fold.js";
import { showParts } from "./message-parts.js";
import { fractionOf, jsonView, valueView } from "./json-view.js";

const STATES = {
  "input-streaming": "preparing",
  "input-available": "running",
  "approval-requested": "needs approval",
  "approval-responded": "approved",
  "output-available": "done",
  "output-error": "failed",
  "output-denied": "denied",
};

export function makeTool({ part }, context) {
  const summary = h("summary", {}, h("span", { className: "sign", "aria-hidden": "true" }, "ƒ"), h("span", { className: "name" }), h("span", { className: "gist" }), h("span", { className: "state" }));
  const body = h("div", { className: "body" });
  const ask = h("div", { className: "ask", hidden: true });
  const runs = h("div", { className: "runs" });
  const card = h("div", { className: "card tool" }, h("details", {}, summary, body), ask, runs);
  card.ask = context.isReadOnly ? null : part.toolCallId;
  return card;
}

export function updateTool(card, { part }, context) {
  const [details, ask, runs] = card.children;
  const state = stateOf(part, context);
  const [, name, gist, shown] = details.firstChild.children;
  setText(name, part.title ?? toolName(part));
  setText(gist, gistOf(part.input));
  setText(shown, state);
  setAttribute(card, "data-state", state);
  card.approval = context.approvalOf?.(part.toolCallId) ?? card.approval; // one that is answered is in no list any more
  details.hidden = isAsked(part, state) && !context.isReadOnly; // the question has all of it
  const told = JSON.stringify([part.state, part.input, part.output, part.errorText, part.approval, card.approval]);
  if (card.told !== told) {
    card.told = told;
    showBody(details.lastChild, part);
    showAsk(card, part, state, context);
  } else if (card.state !== state) {
    showAsk(card, part, state, context);
  }
  card.state = state;
  const expiry = ask.querySelector(".expiry");
  if (expiry) setText(expiry, expiryText(card.approval));
  showRuns(runs, context.runs?.of(part.toolCallId) ?? [], context);
}

/** A call without a result in an answer that has ended waits for the page. */
function stateOf(part, { isStreaming }) {
  if (part.preliminary) return "working";
  if (part.state === "input-available" && !isStreaming && !part.providerExecuted) return "needs an answer";
  if (part.state === "approval-responded" && part.approval?.approved === false) return "denied";
  return STATES[part.state] ?? part.state;
}

/** The input in a few words, for who does not open the call. */
function gistOf(input) {
  if (input === null || typeof input !== "object") return input === undefined ? "" : String(input);
  return Object.entries(input).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ").slice(0, 120);
}

function showBody(body, part) {
  const sections = [];
  if ("input" in part || "rawInput" in part) sections.push(section("Input", jsonView("input" in part ? part.input : part.rawInput)));
  if ("output" in part) sections.push(section(part.preliminary ? "Output so far" : "Output", valueView(part.output)));
  if (part.errorText) sections.push(section("Error", h("p", { className: "plain bad" }, part.errorText)));
  if (part.approval?.approved !== undefined) {
    const word = part.approval.approved ? "approved" : "denied";
    sections.push(section("Approval", h("p", { className: "plain" }, part.approval.reason ? `${word}: ${part.approval.reason}` : word)));
  }
  body.replaceChildren(...sections);
}

const section = (label, content) => h("section", {}, h("h4", {}, label), content);

// -- what somebody has to say -----------------------------------------------------------------------------------------

const isAsked = (part, state) => part.state === "approval-requested" || state === "needs an answer";

function showAsk(card, part, state, context) {
  const ask = card.children[1];
  ask.hidden = !isAsked(part, state) || context.isReadOnly;
  if (ask.hidden) return ask.replaceChildren();
  ask.replaceChildren(...(part.state === "approval-requested" ? approval(part, card.approval, context) : answer(part, context)));
}

/** The question, and what the person has to know: the tool, its summary and its risk, its arguments, the time left. */
function approval(part, known, { chat }) {
  const say = (approved) =>
    onceClicked((event) => {
      for (const button of event.target.parentElement.querySelectorAll("button")) button.disabled = true;
      chat.approve(part.toolCallId, approved);
    });
  const why = whyNot(known);
  return [
    h("header", {}, h("h4", { className: "asked" }, "Allow this call?"), riskView(known?.risk)),
    summaryView(known?.summary),
    h("p", { className: "call" }, h("span", { className: "sign", "aria-hidden": "true" }, "ƒ"), h("span", { className: "name" }, part.title ?? toolName(part))),
    argumentsView(part.input),
    h(
      "div",
      { className: "buttons" },
      h("button", { type: "button", className: "yes", disabled: why !== "", onclick: say(true) }, "Approve"),
      h("button", { type: "button", disabled: why !== "", onclick: say(false) }, "Deny"),
      h("span", { className: "expiry" }),
      why && h("span", { className: "why" }, why),
    ),
  ].filter(Boolean);
}

function answer(part, { chat }) {
  const box = h("textarea", { rows: 2, className: "code", "aria-label": `Result of ${toolName(part)}, as JSON`, placeholder: '{"as": "JSON"}, or plain text' });
  const result = () => {
    try {
      return JSON.parse(box.value);
    } catch {
      return box.value;
    }
  };
  return [
    h("header", {}, h("h4", { className: "asked" }, "What is the result?")),
    h("p", { className: "call" }, h("span", { className: "sign", "aria-hidden": "true" }, "ƒ"), h("span", { className: "name" }, toolName(part)), " runs in the page."),
    argumentsView(part.input),
    box,
    h(
      "div",
      { className: "buttons" },
      h("button", { type: "button", className: "yes", onclick: () => chat.answer(part.toolCallId, toolName(part), result()) }, "Send the result"),
      h("button", { type: "button", onclick: () => chat.answer(part.toolCallId, toolName(part), null, box.value || "the page could not run the tool") }, "Report a failure"),
    ),
  ].filter(Boolean);
}

// -- agents as tools --------------------------------------------------------------------------------------------------

export function showRuns(parent, runs, context) {
  runs.forEach((run, index) => {
    let card = parent.children[index];
    if (!card) parent.append((card = makeRun()));
    updateRun(card, run, context);
  });
  while (parent.children.length > runs.length) parent.lastElementChild.remove();
}

function makeRun() {
  const summary = h("summary", {}, icon("agent"), h("span", { className: "name" }), h("span", { className: "gist" }), h("span", { className: "state" }));
  const body = h("div", { className: "body" }, h("progress", { max: 1, hidden: true, "aria-label": "progress" }), h("div", { className: "said" }), h("p", { className: "ending", hidden: true }));
  const details = h("details", { className: "card run", open: true }, summary, body);
  details.addEventListener("click", () => (details.isChosen = true));
  return details;
}

function updateRun(card, run, context) {
  const [, name, gist, state] = card.firstChild.children;
  setText(name, run.display.name ?? run.kind);
  setText(gist, run.progress?.message ?? (typeof run.preview === "string" ? run.preview : run.preview ? JSON.stringify(run.preview) : ""));
  setText(state, run.status);
  setAttribute(card, "data-state", run.status);
  if (!card.isChosen) card.open = run.status === "running";
  const [bar, said, ending] = card.lastChild.children;
  const fraction = run.status === "running" ? fractionOf(run.progress) : null;
  bar.hidden = fraction === null;
  if (fraction !== null) bar.value = fraction;
  showParts(said, run.fold.message, { ...context, isReadOnly: true, isStreaming: run.status === "running", runs: null });
  const text = run.error ?? run.reason ?? (run.fold.parts.length ? null : run.summary);
  ending.hidden = !text;
  setClass(ending, run.status === "completed" ? "ending" : "ending error");
  setText(ending, text ?? "");
}
