// Shows what a late client would see: opens a second socket without history, and shows it beside this page's own.

import { at, bytes, setAttribute, setText } from "./dom.js";
import { endingsOf } from "./endings.js";
import { Log } from "./log-reader.js";
import { ReconnectingSocket } from "./reconnecting-socket.js";
import { rowsOf, showRows } from "./messages.js";

/** The first place where two values differ, as words; null when they are equal. */
export function difference(one, other, path = "") {
  if (Object.is(one, other)) return null;
  const isBoth = one !== null && other !== null && typeof one === "object" && typeof other === "object";
  if (!isBoth || Array.isArray(one) !== Array.isArray(other)) return path || "everything";
  for (const name of new Set([...Object.keys(one), ...Object.keys(other)])) {
    const found = difference(one[name], other[name], path ? `${path}.${name}` : name);
    if (found) return found;
  }
  return null;
}

/** How a page shows that its turns ended: {outcome, error} by row. What only the log has, clients do not read. */
function endingsIn(rows) {
  return Object.fromEntries(rows.filter(({ ending }) => ending).map(({ key, ending: { outcome, error } }) => [key, { outcome, error: error ?? null }]));
}

export class LateView {
  /** @param {ReconnectingSocket} link of this page  @param {Log|null} log of this page */
  constructor(link, log) {
    this.dialog = at("late");
    this.verdict = at("verdict");
    const other = new ReconnectingSocket(link.path, link.query);
    this.here = { id: "here", link, log };
    this.there = { id: "there", link: other, log: log && new Log(log.feed, log.agent, log.query) };
    this.sources = [link, other, log, this.there.log].filter(Boolean);
    this.refresh = () => this.schedule();
    for (const source of this.sources) source.addEventListener("change", this.refresh);
    this.dialog.addEventListener("close", () => this.close(), { once: true });
    at("here").replaceChildren();
    at("there").replaceChildren();
    this.dialog.showModal();
    this.show();
  }

  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.show();
    });
  }

  show() {
    for (const side of [this.here, this.there]) this.side(side);
    const [state, words] = this.judge();
    setAttribute(this.verdict, "data-state", state);
    setText(this.verdict, words);
  }

  side(side) {
    const { id, link, log } = side;
    const { endings, after } = endingsOf(link.chat, log);
    const masked = (map) => new Map([...map].map(([key, { outcome, error }]) => [key, { outcome, error }]));
    const rows = rowsOf(link.chat, { endings: masked(endings), after: masked(after) });
    side.endings = endingsIn(rows);
    showRows(at(id), rows, { chat: link.chat, runs: link.chat.runs, isReadOnly: true });
    const received = link.frames.filter(({ way }) => way === "in");
    const replayed = received.filter(({ frame }) => frame?.replay || frame?.connect).length;
    const size = received.reduce((sum, { text }) => sum + text.length, 0);
    setText(at(`${id}-facts`), `${received.length} frames, ${replayed} of them replayed, ${bytes(size)}`);
    setText(at(`${id}-status`), statusText(link.chat));
  }

  judge() {
    const [here, there] = [this.here.link.chat, this.there.link.chat];
    const isRunning = here.running.length > 0 || there.running.length > 0;
    if (this.there.link.state !== "live" || (!there.hasTranscript && !there.streams.size)) return ["waiting", "The late client is connecting."];
    if (!there.isPlaced && !isRunning) return ["waiting", "The late client is connecting."];
    const found = difference(here.messages, there.messages) ?? this.differentEnding(here, there, isRunning);
    const count = here.messages.length;
    const error = isRunning ? null : errorOf(here);
    if (!found) return ["equal", `Equal: both show the same ${count === 1 ? "message" : `${count} messages`}, to the last letter${isRunning ? ", and the answer still grows" : error === null ? "" : ", and the same error"}.`];
    if (isRunning) return ["waiting", "One is a few words ahead while the answer grows."];
    if (found === "the log") return ["waiting", "The late client is reading the log."];
    return ["different", `Different, first at ${found}. That should not happen: please report it with both lists of frames.`];
  }

  /** Where the two differ in how turns ended; null when they are equal. */
  differentEnding(here, there, isRunning) {
    if (!isRunning && errorOf(here) !== errorOf(there)) return "the error of the newest turn";
    const { log } = this.there;
    if (!log) return null; // without the log, a client that comes late is told of the newest turn only
    return difference(this.here.endings, this.there.endings, "endings") && (log.cursor === this.here.log.cursor ? "the ending of a turn" : "the log");
  }

  close() {
    for (const source of this.sources) source.removeEventListener("change", this.refresh);
    this.there.link.close();
    this.there.log?.close();
  }
}

/** The error that the newest turn ended with, as this client was told; null for none. */
function errorOf(chat) {
  const shown = new Set(chat.messages.map(({ id }) => id)); // a refused question has an error, and no turn
  const turns = [...chat.endings].filter(([request, { questions }]) => questions.some((id) => shown.has(id)) || shown.has(chat.answers.get(request)));
  const newest = turns.at(-1)?.[1];
  return newest?.outcome === "error" ? (newest.error ?? "") : null;
}

function statusText(chat) {
  if (chat.running.length) return "Newest turn: running";
  return errorOf(chat) === null ? "Newest turn: no error" : "Newest turn: failed";
}
