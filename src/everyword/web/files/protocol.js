// The client's half of the protocol, without a socket: give it every frame, send what it returns, read `messages`.
// Commands that were sent on a lost socket are sent again on the next one; streams are resumed automatically.

import { Fold, isTool, isAhead } from "./fold.js";
import { Runs } from "./agent-tool-runs.js";
import { Calls, UnconfirmedFrames, randomId } from "./unconfirmed-frames.js";

const PLACING = new Set(["cf_agent_stream_resuming", "cf_agent_stream_pending", "cf_agent_stream_resume_none"]);

export class Chat {
  constructor() {
    this.runs = new Runs();
    this.endings = new Map(); // request → {outcome, error, questions}
    this.answers = new Map(); // request → id of its answer
    this.identity = null;
    this.state = undefined;
    this.stateError = null;
    this.recovering = new Set();
    this.hasTranscript = false;
    this.present = []; // who is connected: {id, name}
    this.isPlaced = false; // whether the server said what this connection has to catch up with
    this.transients = new Map(); // type → newest transient data part
    this.stored = [];
    this.streams = new Map(); // request → {fold, seen, replaying, isNews}
    this.bases = new Map(); // open continuation → the message that it extends
    this.questions = new Map(); // own request → {message, ended?}
    this.awaited = new Set(); // requests that are known to be under way
    this.unaccepted = new Set(); // messages that are shown although the newest transcript does not have them
    this.doubted = new Set(); // those not heard of since the connection was lost
    this.inquired = new Set();
    this.cleared = new Set();
    this.pending = null;
    this.clearing = null;
    this.held = null;
    this.isAway = true;
    this.unconfirmed = new UnconfirmedFrames();
    this.calls = new Calls();
    this.send = () => {};
  }

  // -- what to read ------------------------------------------------------------------------------------------

  /** The conversation with what streams, as this client was told. */
  get messages() {
    this.show();
    return this.stored;
  }

  /** Requests that have not ended, the oldest first. */
  get running() {
    const waiting = [...this.awaited].filter((each) => this.questions.has(each) || each === this.pending);
    return [...this.streams.keys(), ...waiting.filter((each) => !this.streams.has(each))];
  }

  // -- what to send ------------------------------------------------------------------------------------------

  connected() {
    this.isAway = false;
    for (const frame of this.unconfirmed.frames()) this.send(frame);
    this.post({ type: "cf_agent_stream_resume_request", probeId: randomId(8) });
  }

  disconnected() {
    this.show();
    this.streams.clear(); // drawn anew from the replay
    this.isAway = true;
    this.isPlaced = false;
    this.present = [];
    this.pending = null;
    this.inquired.clear();
    this.doubted = new Set(this.awaited);
    this.calls.lose();
  }

  /** Send a question: the whole list, as the stock client does. */
  ask(messages, { trigger = "submit-message", request = randomId(8) } = {}) {
    this.stored = [...messages];
    this.questions.set(request, messages.at(-1));
    this.awaited.add(request);
    const init = { method: "POST", body: JSON.stringify({ messages, trigger }) };
    this.say(this.unconfirmed.question(request, { id: request, init, type: "cf_agent_use_chat_request" }));
    return request;
  }

  stop(request) {
    this.command({ id: request, type: "cf_agent_chat_request_cancel" });
  }

  clear() {
    this.stored = [];
    this.streams.clear();
    this.runs.clear();
    for (const request of [...this.awaited, ...this.endings.keys()]) this.cleared.add(request);
    for (const request of this.questions.keys()) this.unconfirmed.confirm(request);
    this.held = null;
    this.clearing = this.command({ type: "cf_agent_chat_clear" });
  }

  answer(toolCallId, toolName, output, errorText = null) {
    const result = errorText === null ? { output } : { state: "output-error", errorText };
    this.command({ type: "cf_agent_tool_result", toolCallId, toolName, ...result, autoContinue: errorText === null });
  }

  approve(toolCallId, approved) {
    this.command({ type: "cf_agent_tool_approval", toolCallId, approved, autoContinue: true });
  }

  setState(state) {
    this.state = state;
    this.stateError = null;
    this.command({ type: "cf_agent_state", state });
  }

  /** Call a method of the agent. */
  async call(method, args = []) {
    if (this.isAway) throw new Error("the server is not reachable");
    return this.calls.start(method, args, (frame) => this.post(frame));
  }

  command(frame) {
    const [mark, frames] = this.unconfirmed.command(frame);
    this.say(frames);
    return mark;
  }

  say(frames) {
    if (!this.isAway) frames.forEach((frame) => this.send(frame)); // else it is said with everything unconfirmed
  }

  post(frame) {
    this.send(JSON.stringify(frame));
  }

  // -- what arrives ------------------------------------------------------------------------------------------

  take(frame) {
    if (PLACING.has(frame.type)) this.isPlaced = true;
    switch (frame.type) {
      case "cf_agent_use_chat_response": return this.response(frame);
      case "cf_agent_chat_messages": return this.transcript(frame.messages, frame.connect);
      case "cf_agent_message_updated": return this.updated(frame.message);
      case "cf_agent_stream_resuming":
        this.heard((this.resumed = frame.id));
        return this.post({ type: "cf_agent_stream_resume_ack", id: frame.id });
      case "cf_agent_stream_pending":
        this.pending = frame.id ?? null;
        if (frame.id) this.heard(frame.id);
        return this.inquire();
      case "cf_agent_stream_resume_none":
        if (!frame.probeId) this.released();
        return this.inquire();
      case "cf_agent_chat_clear":
        this.stored = [];
        this.streams.clear();
        if (this.held) this.held = []; // somebody else cleared what ours will leave
        return this.runs.clear();
      case "cf_agent_chat_recovering":
        return void (frame.recovering ? this.recovering.add(frame.id) : this.recovering.delete(frame.id));
      case "everyword_presence": return void (this.present = frame.principals);
      case "cf_agent_identity": return void (this.identity = frame);
      case "cf_agent_state": return void (this.state = frame.state);
      case "cf_agent_state_error": return void (this.stateError = frame.error);
      case "agent-tool-event": return this.runs.take(frame);
      case "rpc": return this.confirmed(frame);
    }
  }

  response(frame) {
    const { id, body, done, error } = frame;
    const questions = frame.messageIds ?? [];
    if (done && !this.answers.has(id)) this.nameAnswer(frame);
    if (error && body) return this.end(id, { outcome: "error", error: body, questions });
    if (done) return this.end(id, { outcome: frame.outcome ?? (frame.replay && this.questions.has(id) ? "skipped" : "completed"), questions });
    if (error) return void this.streams.delete(id);
    this.heard(id);
    if (frame.replayComplete) {
      const stream = this.streams.get(id);
      if (stream) stream.replaying = false;
    } else if (body && !(this.clearing && this.cleared.has(id))) {
      this.chunk(frame, JSON.parse(body));
    }
  }

  chunk({ id, replay = false, continuation = false, seq }, chunk) {
    let stream = this.streams.get(id);
    if (!stream && this.clearing && chunk.type !== "start" && !continuation) return; // the rest of what is cleared
    const anew = replay && chunk.type === "start"; // it comes with the whole message
    if (!stream || anew) {
      if (continuation && !this.bases.has(id)) this.bases.set(id, this.messages.findLast(({ role }) => role === "assistant") ?? null);
      this.streams.set(id, (stream = { fold: new Fold(continuation && !anew ? this.bases.get(id) : null), seen: -1, isWhole: anew }));
    }
    stream.replaying = replay && (stream.isWhole || !continuation); // nobody wants to see an answer shrink
    if (continuation && seq != null) {
      if (seq <= stream.seen) return;
      stream.seen = seq;
    }
    stream.isNews = true;
    if (chunk.transient) this.transients.set(chunk.type, chunk);
    stream.fold.apply(chunk);
    if (stream.fold.message.id) this.answers.set(id, stream.fold.message.id);
  }

  nameAnswer({ id, messageIds, continuation }) {
    const { messages } = this;
    const asked = messageIds?.at(-1) ?? this.questions.get(id)?.id;
    let place = messages.findIndex((message) => message.id === asked) + 1;
    if (!asked && continuation) place = messages.length - 1;
    if (place > 0 && messages[place]?.role === "assistant") this.answers.set(id, messages[place].id);
  }

  end(request, ending) {
    const stream = this.streams.get(request);
    if (stream) stream.replaying = false;
    this.show();
    this.streams.delete(request);
    const question = this.questions.get(request);
    if (this.unaccepted.has(question?.id)) this.stored = this.stored.filter(({ id }) => id !== question.id);
    this.questions.delete(request);
    this.bases.delete(request);
    this.awaited.delete(request);
    this.doubted.delete(request);
    this.recovering.delete(request);
    this.unconfirmed.confirm(request);
    this.transients.clear();
    if (!this.endings.has(request)) this.endings.set(request, { ...ending, questions: [...(ending.questions ?? []), ...(question ? [question.id] : [])] });
    this.inquire();
  }

  /** Put what has streamed among the messages. */
  show() {
    for (const stream of this.streams.values()) {
      const { message } = stream.fold;
      if (stream.replaying || !stream.isNews || !message.id || !message.parts.length) continue;
      if (!this.stored.some((each) => each.id === message.id && isAhead(each, message))) put(this.stored, message);
      stream.isNews = false;
    }
  }

  /** Take the transcript as it was read elsewhere, with what streams behind it. */
  adopt(messages) {
    const known = new Set(messages.map(({ id }) => id));
    const answers = new Set([...this.streams.keys(), this.resumed].map((request) => this.answers.get(request)));
    const growing = this.messages.filter(({ id }) => answers.has(id) && !known.has(id));
    this.transcript(messages, true);
    for (const message of growing) put(this.stored, message);
  }

  transcript(messages, isGreeting) {
    if (this.clearing) return void (this.held = messages); // written before the clear was heard, unless none follows
    this.hasTranscript = true;
    this.show();
    const known = new Set(messages.map(({ id }) => id));
    const streaming = [...this.streams.values()].filter(({ replaying }) => !replaying).map(({ fold }) => fold.message);
    // What greets was rendered before what we asked meanwhile was accepted.
    const waiting = isGreeting ? [...this.questions.values()] : [];
    const kept = [...waiting, ...streaming.filter(({ id, parts }) => id && parts.length)].filter(({ id }) => !known.has(id));
    this.unaccepted = new Set(kept.map(({ id }) => id));
    this.stored = [...messages, ...kept];
  }

  updated(message) {
    if (this.clearing) return;
    this.show();
    for (const [request, { fold }] of this.streams) {
      if (this.answers.get(request) !== message.id) continue;
      for (const part of message.parts) {
        const here = isTool(part) && part.state === "approval-responded" && fold.call(part.toolCallId);
        if (here) Object.assign(here, { state: part.state, approval: part.approval });
      }
    }
    put(this.stored, message, true);
  }

  released() {
    const waited = this.pending;
    this.pending = null;
    if (waited && this.awaited.has(waited) && !this.questions.has(waited)) this.end(waited, { outcome: "skipped" });
  }

  /** Ask for the ends of what was under way when the connection was lost, unless something streams. */
  inquire() {
    if (this.streams.size) return;
    for (const request of [...this.doubted].filter((each) => !this.inquired.has(each))) {
      this.inquired.add(request);
      this.post({ type: "cf_agent_stream_resume_ack", id: request });
    }
  }

  heard(request) {
    this.doubted.delete(request);
    if (!this.endings.has(request)) this.awaited.add(request);
  }

  confirmed(frame) {
    this.calls.settle(frame);
    const { id } = frame;
    if (!this.unconfirmed.confirm(id) || id !== this.clearing) return;
    this.clearing = null;
    for (const request of [...this.awaited]) if (this.cleared.has(request)) this.end(request, { outcome: "aborted" });
    this.cleared.clear();
    if (this.held) this.transcript(this.held, true);
  }
}

function put(list, message, onlyKnown = false) {
  const place = list.findIndex(({ id }) => id === message.id);
  if (place !== -1) list[place] = message;
  else if (!onlyKnown) list.push(message);
}
