// Draws one turn from the log on a time axis: its attempts, the density of its chunks, its calls, and its outcome.

import { drawn, h, keyed, lasted, setAttribute, setText } from "./dom.js";

const WIDTH = 360;
const LEFT = 62;
const RIGHT = 8;
const BUCKETS = 64;
const LANE = 20;

export class Timeline {
  constructor(parent) {
    this.list = h("ol", { className: "turns", "aria-label": "Turns, newest first" });
    this.picture = h("div", { className: "picture" });
    this.facts = h("dl", { className: "facts" });
    this.nothing = h("p", { className: "nothing" }, "No turns yet. Each turn is drawn here from its events in the log.");
    this.chosen = null; // a turn's id, or null for the newest
    parent.append(this.nothing, this.list, this.picture, this.facts);
  }

  show(log) {
    const turns = [...log.turns.values()].reverse();
    const turn = turns.find(({ id }) => id === this.chosen) ?? turns[0];
    this.nothing.hidden = turns.length > 0;
    keyed(this.list, turns.slice(0, 30).map((each) => ({ key: String(each.id), turn: each })), ({ turn: { id } }) => this.makeTurn(id, log), (item, row) => updateTurn(item, row.turn, row.turn === turn));
    this.picture.replaceChildren(...(turn ? [draw(turn, Date.now())] : []));
    showFacts(this.facts, turn);
  }

  makeTurn(id, log) {
    const choose = () => {
      this.chosen = id;
      this.show(log);
    };
    return h("li", {}, h("button", { type: "button", onclick: choose }, h("span", { className: "dot" }), h("span", { className: "number" }), h("span", { className: "gist" }), h("span", { className: "time" })));
  }
}

function updateTurn(item, turn, isChosen) {
  const button = item.firstChild;
  const [, number, gist, time] = button.children;
  setAttribute(button, "aria-pressed", String(isChosen));
  setAttribute(button, "data-state", turn.outcome ?? "running");
  setText(number, `#${turn.id}`);
  setText(gist, `${turn.outcome ?? (turn.attempts.length ? "running" : "waiting")}${turn.kind && turn.kind !== "chat" ? `, ${turn.kind}` : ""}${turn.attempts.length > 1 ? `, ${turn.attempts.length} attempts` : ""}`);
  setText(time, `${turn.chunks} chunks, ${lasted((turn.ended ?? turn.last) - turn.accepted)}`);
}

// -- the picture -------------------------------------------------------------------------------------------------------

function draw(turn, now) {
  const start = turn.accepted;
  const end = Math.max(turn.ended ?? now, start + 1);
  const scale = (at) => LEFT + ((Math.min(at, end) - start) / (end - start)) * (WIDTH - LEFT - RIGHT);
  const calls = [...turn.calls.values()];
  const height = LANE * (3 + calls.length) + 22;
  const label = `Turn ${turn.id}: ${many(turn.attempts.length, "attempt")}, ${many(turn.chunks, "chunk")}, ${many(calls.length, "call")}, ${turn.outcome ?? "running"}`;
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "timeline", role: "img", "aria-label": label });
  drawAttempts(svg, turn, scale, end);
  drawDensity(svg, turn, scale, start, end);
  calls.forEach((call, index) => drawCall(svg, call, LANE * (2 + index), scale, turn.ended ?? now));
  drawMarks(svg, turn, LANE * (2 + calls.length), scale);
  drawAxis(svg, height - 18, end - start);
  return svg;
}

const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function lane(svg, row, name) {
  svg.append(drawn("text", { x: 0, y: row + 13, class: "lane" }, name.length > 11 ? `${name.slice(0, 10)}…` : name));
}

function bar(svg, x, to, row, state, title) {
  const rect = drawn("rect", { x, y: row + 4, width: Math.max(2, to - x), height: LANE - 8, rx: 3, class: `bar ${state}` });
  rect.append(drawn("title", {}, title));
  svg.append(rect);
}

function drawAttempts(svg, turn, scale, end) {
  lane(svg, 0, "attempts");
  const first = turn.attempts[0]?.start ?? end;
  if (first > turn.accepted) bar(svg, scale(turn.accepted), scale(first), 0, "waited", `waited ${lasted(first - turn.accepted)}`);
  for (const attempt of turn.attempts) {
    const isLast = attempt === turn.attempts.at(-1);
    const to = attempt.end ?? end;
    bar(svg, scale(attempt.start), scale(to), 0, isLast ? turn.outcome ?? "running" : "died", `attempt ${attempt.number} (${attempt.cause}), ${lasted(to - attempt.start)}`);
    if (turn.attempts.length > 1) svg.append(drawn("text", { x: scale(attempt.start) + 4, y: 14, class: "on-bar" }, String(attempt.number)));
  }
}

function drawDensity(svg, turn, scale, start, end) {
  lane(svg, LANE, "chunks");
  const counts = new Array(BUCKETS).fill(0);
  for (const { t, at } of turn.events) {
    if (t === "chunk") counts[Math.min(BUCKETS - 1, Math.floor(((at - start) / (end - start)) * BUCKETS))] += 1;
  }
  const most = Math.max(1, ...counts);
  const width = (scale(end) - scale(start)) / BUCKETS;
  counts.forEach((count, index) => {
    if (!count) return;
    const tall = Math.max(2, (count / most) * (LANE - 4));
    const rect = drawn("rect", { x: LEFT + index * width, y: LANE * 2 - 2 - tall, width: Math.max(1, width - 0.8), height: tall, class: "density" });
    rect.append(drawn("title", {}, `${count} chunks`));
    svg.append(rect);
  });
}

function drawCall(svg, call, row, scale, now) {
  lane(svg, row, call.tool || "call");
  const state = call.failed ? "error" : call.end ? "call" : "running";
  bar(svg, scale(call.start), scale(call.end ?? now), row, state, `${call.tool} ${call.id}: ${lasted((call.end ?? now) - call.start)}`);
}

function drawMarks(svg, turn, row, scale) {
  lane(svg, row, "marks");
  const marks = [...turn.marks, ...(turn.ended ? [{ at: turn.ended, word: turn.outcome, isEnd: true }] : [])];
  for (const { at, word, isEnd } of marks) {
    const x = scale(at);
    const group = drawn("g", { class: isEnd ? `mark end ${turn.outcome}` : "mark" });
    group.append(drawn("path", { d: `M${x} ${row + 4}l5 6-5 6-5-6z` }), drawn("title", {}, word));
    svg.append(group);
  }
}

function drawAxis(svg, y, span) {
  svg.append(drawn("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y, class: "axis" }));
  for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    const x = LEFT + part * (WIDTH - LEFT - RIGHT);
    svg.append(drawn("text", { x, y: y + 13, "text-anchor": anchor, class: "tick" }, part ? lasted(span * part) : "0"));
  }
}

// -- the facts -----------------------------------------------------------------------------------------------------------

function showFacts(list, turn) {
  const facts = turn ? factsOf(turn).filter(([, value]) => value !== undefined && value !== null && value !== "") : [];
  const told = JSON.stringify(facts);
  if (list.told === told) return;
  list.told = told;
  list.replaceChildren(...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
}

function factsOf(turn) {
  return [
    ["outcome", turn.outcome ?? (turn.attempts.length ? "running" : "waiting")],
    ["reason", turn.reason],
    ["error", turn.error],
    ["detail", turn.detail],
    ["request", turn.request],
    ["trigger", turn.trigger],
    ["first chunk", turn.first && `after ${lasted(turn.first - turn.accepted)}`],
    ["finish", turn.finish],
    ["usage", turn.usage && usageText(turn.usage)],
    ["sub-agents", turn.usage?.subAgents && usageText(turn.usage.subAgents)],
  ];
}

export function usageText(usage) {
  return Object.entries(usage).filter(([, value]) => typeof value === "number").map(([name, value]) => `${name.replace(/_?[Tt]okens$/, "").replaceAll(/([A-Z])/g, " $1").toLowerCase()} ${value}`).join(", ");
}
