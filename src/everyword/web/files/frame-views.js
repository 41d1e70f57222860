// Lists of the frames that this page's socket sent and received, and of the events of the log.

import { bytes, clock, h, keyed, setText } from "./dom.js";
import { jsonView } from "./json-view.js";

const SHOWN = 250;
const PREFIX = /^cf_agent_/;

/** A list of lines that open to show JSON, with a filter above it. */
class Lines {
  constructor(parent, label, hint) {
    this.filter = h("input", { type: "search", placeholder: hint, "aria-label": `Filter the ${label}` });
    this.count = h("span", { className: "count" });
    this.bar = h("div", { className: "bar" }, this.filter, this.count);
    this.list = h("ol", { className: "lines", "aria-label": label });
    parent.append(this.bar, this.list);
    this.filter.addEventListener("input", () => this.refresh?.());
  }

  lines(rows, total, makeLine) {
    keyed(this.list, rows.slice(-SHOWN).reverse(), makeLine);
    setText(this.count, rows.length > SHOWN ? `newest ${SHOWN} of ${rows.length}` : `${rows.length} of ${total}`);
  }

  get wanted() {
    return this.filter.value.trim().toLowerCase();
  }
}

function line(className, cells, open) {
  const details = h("details", {}, h("summary", {}, cells.map(([name, text]) => h("span", { className: name, title: name === "what" ? text : undefined }, text))));
  details.addEventListener("toggle", async () => {
    if (details.open && details.children.length === 1) details.append(await open());
  });
  return h("li", { className }, details);
}

export class FramesView extends Lines {
  constructor(parent) {
    super(parent, "frames", "Filter: text, replay, rpc…");
    this.own = h("input", { type: "checkbox" });
    this.bar.append(h("label", { title: "Calls that this page makes by itself" }, this.own, "own calls"));
    this.own.addEventListener("change", () => this.refresh?.());
  }

  show(link) {
    this.refresh = () => this.show(link);
    const { wanted } = this;
    const rows = link.frames.filter((each) => (this.own.checked || !isOwnCall(each)) && (!wanted || each.text.toLowerCase().includes(wanted)));
    this.lines(rows.map((each) => ({ ...each, key: String(each.number) })), link.count, frameLine);
  }
}

const isOwnCall = ({ frame }) => frame?.type === "rpc" && /^(mark|call)-/.test(frame.id ?? "");

function frameLine({ way, at, text, frame }) {
  const arrow = { in: "↓", out: "↑", note: "•" }[way];
  const cells = [["way", arrow], ["time", clock(at)], ["what", frame ? frameWord(frame) : text], ["size", way === "note" ? "" : bytes(text.length)]];
  return line(`line ${way}${frame?.replay ? " replay" : ""}${frame?.error ? " error" : ""}`, cells, () => jsonView(frame ? unfolded(frame) : text));
}

/** A frame in a few words. */
function frameWord(frame) {
  const type = (frame.type ?? "").replace(PREFIX, "");
  if (frame.type !== "cf_agent_use_chat_response") return frame.messages ? `${type}, ${frame.messages.length} messages` : frame.event ? `${type} ${frame.event.kind}` : frame.method ? `${type} ${frame.method}` : type;
  if (frame.done) return `end: ${frame.outcome ?? "done"}`;
  if (frame.replayComplete) return "replay complete";
  const chunk = unfolded(frame).body;
  const word = typeof chunk === "object" ? `${chunk.type}${chunk.delta === undefined ? "" : ` ${JSON.stringify(chunk.delta)}`}${chunk.toolName ? ` ${chunk.toolName}` : ""}` : String(chunk);
  return `${frame.seq === undefined ? "" : `${frame.seq} `}${word}`;
}

function unfolded(frame) {
  try {
    if (typeof frame.init?.body === "string") return { ...frame, init: { ...frame.init, body: JSON.parse(frame.init.body) } };
    if (typeof frame.body === "string" && frame.body && !frame.error) return { ...frame, body: JSON.parse(frame.body) };
  } catch {
    // words for people
  }
  return frame;
}

export class LogView extends Lines {
  constructor(parent) {
    super(parent, "events of the log", "Filter: turn, chunk, tool…");
  }

  show(log) {
    this.refresh = () => this.show(log);
    const { wanted } = this;
    const rows = log.events.map((event) => ({ ...event, word: eventWord(event) })).filter(({ t, word }) => !wanted || `${t} ${word}`.toLowerCase().includes(wanted));
    const make = (event) => line(`line event ${event.t.split(".")[0]}${event.outcome === "error" ? " error" : ""}`, [["way", String(event.seq)], ["time", clock(event.at)], ["what", `${event.t} ${event.word}`], ["size", bytes(event.size)]], async () => jsonView(await log.event(event.seq)));
    this.lines(rows.map((event) => ({ ...event, key: String(event.seq) })), log.events.length, make);
  }
}

function eventWord({ turn, index, chunk, outcome, attempt, t, tool, kind, request, cause, job }) {
  const place = turn == null ? "" : `#${turn} `;
  if (t === "chunk") return `${place}${index} ${chunk?.type ?? ""}${chunk?.toolName ? ` ${chunk.toolName}` : ""}`;
  return place + [outcome, attempt && t.startsWith("attempt.") && `${attempt} (${cause ?? "first"})`, tool, kind, request && t === "turn.accepted" && request, job].filter(Boolean).join(" ");
}
