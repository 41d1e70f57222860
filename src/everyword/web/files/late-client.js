// Shows what a late client would see: opens a second socket without history, and shows it beside this page's own.

import { at, bytes, h, setAttribute, setText } from "./dom.js";
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

export class LateView {
  constructor(link) {
    this.link = link;
    this.dialog = at("late");
    this.verdict = at("verdict");
    this.other = new ReconnectingSocket(link.path, link.query);
    this.started = { frames: this.other.count };
    this.refresh = () => this.schedule();
    this.link.addEventListener("change", this.refresh);
    this.other.addEventListener("change", this.refresh);
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
    this.side("here", this.link);
    this.side("there", this.other);
    const [state, words] = this.judge();
    setAttribute(this.verdict, "data-state", state);
    setText(this.verdict, words);
  }

  side(id, link) {
    showRows(at(id), rowsOf(link.chat), { chat: link.chat, runs: link.chat.runs, isReadOnly: true });
    const received = link.frames.filter(({ way }) => way === "in");
    const replayed = received.filter(({ frame }) => frame?.replay || frame?.connect).length;
    const size = received.reduce((sum, { text }) => sum + text.length, 0);
    setText(at(`${id}-facts`), `${received.length} frames, ${replayed} of them replayed, ${bytes(size)}`);
  }

  judge() {
    const { chat } = this.other;
    if (this.other.state !== "live" || (!chat.hasTranscript && !chat.streams.size)) return ["waiting", "The late client is connecting."];
    const found = difference(this.link.chat.messages, chat.messages);
    const isRunning = this.link.chat.running.length > 0 || chat.running.length > 0;
    const count = this.link.chat.messages.length;
    if (!found) return ["equal", `Equal: both show the same ${count === 1 ? "message" : `${count} messages`}, to the last letter${isRunning ? ", and the answer still grows" : ""}.`];
    if (isRunning) return ["waiting", "One is a few words ahead while the answer grows."];
    return ["different", `Different, first at ${found}. That should not happen: please report it with both lists of frames.`];
  }

  close() {
    this.link.removeEventListener("change", this.refresh);
    this.other.removeEventListener("change", this.refresh);
    this.other.close();
  }
}
