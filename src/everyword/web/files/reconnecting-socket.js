// One socket to one agent that reconnects by itself, and records every frame.

import { Chat } from "./protocol.js";
import { randomId } from "./unconfirmed-frames.js";

const SOONEST = 300;
const LATEST = 2000;
const KEPT = 3000; // frames that are remembered
const REFUSED = 1008;
const CUT_FOR = 2500; // milliseconds

export class ReconnectingSocket extends EventTarget {
  /** @param {string} path of the agent  @param {string} query what else the address carries, e.g. a token */
  constructor(path, query = "") {
    super();
    this.chat = new Chat();
    this.chat.send = (text) => this.transmit(text);
    this.owner = randomId(12);
    this.path = path;
    this.query = query;
    this.state = "connecting"; // live, away, cut, refused, closed
    this.reason = "";
    this.frames = []; // {at, way, text, frame, number}
    this.count = 0;
    this.opened = 0;
    this.wait = SOONEST;
    this.hurry = () => this.state === "away" && this.open();
    addEventListener("online", this.hurry);
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    const address = new URL(this.path, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    address.search = new URLSearchParams([["_pk", this.owner], ["presence", "1"], ...new URLSearchParams(this.query)]);
    const socket = (this.socket = new WebSocket(address));
    socket.onopen = () => this.opens(socket);
    socket.onmessage = ({ data }) => this.receive(data);
    socket.onclose = (event) => this.socket === socket && this.closes(event);
  }

  opens(socket) {
    if (this.socket !== socket) return;
    this.opened += 1;
    this.isGreeted = false;
    this.note("note", this.opened > 1 ? "reconnected" : "connected");
    this.chat.connected();
    this.changed();
  }

  receive(text) {
    // A refused socket is opened and then closed at once: only a frame says that somebody listens.
    if (this.state !== "live") this.become("live");
    this.wait = SOONEST;
    let frame = null;
    try {
      frame = JSON.parse(text);
    } catch {
      // the agent's own words
    }
    this.note("in", text, frame);
    if (frame && typeof frame === "object") this.chat.take(frame);
    if (frame?.type === "cf_agent_chat_messages") this.isGreeted = true;
    // Who joins in the middle of an answer is told that, and not what was before it.
    if (frame?.type === "cf_agent_identity" && !this.isGreeted) this.readHistory();
    this.changed();
  }

  async readHistory() {
    const { opened } = this;
    const answer = await fetch(`${this.path}/get-messages${this.query && `?${this.query}`}`).catch(() => null);
    const messages = answer?.ok ? await answer.json().catch(() => null) : null;
    if (!messages || this.isGreeted || this.opened !== opened) return;
    this.chat.adopt(messages);
    this.changed();
  }

  closes({ code, reason }) {
    this.note("note", `closed ${code}${reason ? `: ${reason}` : ""}`);
    this.chat.disconnected();
    if (this.state === "closed") return;
    if (code === REFUSED) {
      this.reason = reason;
      return this.become("refused");
    }
    this.reason = reason;
    if (this.state !== "cut") this.become("away");
    this.timer = setTimeout(() => this.open(), this.wait);
    this.wait = Math.min(this.wait * 1.5, LATEST);
  }

  /** Let go of the socket as a bad network would, and stay away for a moment. */
  cut() {
    const { socket } = this;
    clearTimeout(this.timer);
    this.socket = null; // whatever still comes on it is lost
    socket.onmessage = socket.onclose = socket.onopen = null;
    socket.close(4000, "cut");
    this.note("note", "cut by you");
    this.chat.disconnected();
    this.become("cut");
    this.timer = setTimeout(() => this.open(), CUT_FOR);
  }

  close() {
    this.state = "closed";
    clearTimeout(this.timer);
    removeEventListener("online", this.hurry);
    this.socket?.close();
  }

  transmit(text) {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    this.socket.send(text);
    this.note("out", text, JSON.parse(text));
  }

  note(way, text, frame = null) {
    this.count += 1;
    this.frames.push({ number: this.count, at: Date.now(), way, text, frame });
    if (this.frames.length > KEPT) this.frames.splice(0, this.frames.length - KEPT);
  }

  become(state) {
    this.state = state;
    this.changed();
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}
