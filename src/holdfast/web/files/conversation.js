// What an agent's log says, folded: the tree of messages, the open turns, how turns ended.
// The server sends where it stands ("snapshot") and then every event; a cursor is enough to go on from anywhere.

export class Conversation {
  constructor() {
    this.cursor = null;
    this.clear();
  }

  clear() {
    this.leaf = null;
    this.nodes = new Map(); // node → {parent, message}
    this.turns = new Map(); // open turn → {request, node, status, attempt, open}
    this.endings = new Map(); // node → {outcome, error, reason}
  }

  // -- reading -------------------------------------------------------------------------------------------

  /** The shown messages, oldest first: {node, message, turn, ending}; an open turn may have no message yet. */
  get path() {
    const path = [];
    const busy = new Map([...this.turns.values()].map((turn) => [turn.node, turn]));
    for (let node = this.leaf; node != null && this.nodes.has(node); node = this.nodes.get(node).parent) {
      const { message } = this.nodes.get(node);
      const turn = busy.get(node);
      const ending = this.endings.get(node);
      if (message || turn || ending) path.push({ node, message, turn, ending });
    }
    return path.reverse();
  }

  /** The turn that runs, or the next to run; null when nothing does. */
  get running() {
    for (const turn of this.turns.values()) if (turn.status !== "accepted") return turn;
    return this.turns.values().next().value ?? null;
  }

  // -- folding -------------------------------------------------------------------------------------------

  start(snapshot) {
    this.clear();
    this.leaf = snapshot.leaf;
    for (const { node, parent, message } of snapshot.nodes) this.nodes.set(node, { parent, message });
    for (const { node, ...ending } of snapshot.endings) this.endings.set(node, ending);
    for (const { turn, chunks, ...rest } of snapshot.turns) {
      this.turns.set(turn, { ...rest, open: new Map() });
      if (chunks.length) this.place(rest.node).message = null; // the chunks are the whole message
      for (const chunk of chunks) this.chunk(turn, chunk);
    }
  }

  apply(event) {
    const turn = this.turns.get(event.turn);
    switch (event.t) {
      case "chunk":
        this.chunk(event.turn, event.body);
        break;
      case "turn.accepted":
        this.accept(event);
        break;
      case "turn.retargeted":
        if (turn) turn.node = event.node;
        break;
      case "attempt.started":
        if (turn) Object.assign(turn, { status: "running", attempt: event.attempt });
        break;
      case "turn.cancel_requested":
        if (turn) turn.status = "cancelling";
        break;
      case "message.ended":
      case "messages.replaced":
        this.place(event.node).message = event.message;
        break;
      case "turn.ended":
        this.turns.delete(event.turn);
        if (turn && event.outcome !== "completed") this.endings.set(turn.node, event);
        break;
      case "messages.put":
        this.put(event, turn);
        break;
      case "messages.removed":
        for (const node of event.nodes) this.nodes.delete(node);
        break;
      case "leaf.moved":
        this.leaf = event.node;
        break;
      case "chat.cleared":
        this.clear();
        break;
      case "call.answered":
        this.answer(event);
        break;
    }
  }

  place(node) {
    if (!this.nodes.has(node)) this.nodes.set(node, { parent: null, message: null });
    return this.nodes.get(node);
  }

  accept(event) {
    if (event.dropped || !["chat", "continuation"].includes(event.kind)) return; // it has no place in the conversation
    for (const { node, parent, message } of event.messages ?? []) this.nodes.set(node, { parent, message });
    this.turns.set(event.turn, {
      request: event.request, node: event.node, status: "accepted", attempt: 0, open: new Map(),
    });
    if (event.kind === "chat") {
      this.nodes.set(event.node, { parent: event.parent, message: null });
      this.leaf = event.node;
    } else {
      this.endings.delete(event.node);
    }
  }

  put(event, turn) {
    for (const { node, parent, message } of event.messages) this.nodes.set(node, { parent, message });
    const last = event.messages.at(-1).node;
    if (turn) this.place(turn.node).parent = last;
    else this.leaf = last;
  }

  answer({ node, call, kind, value, turn }) {
    const part = this.nodes.get(node)?.message?.parts.find((part) => part.toolCallId === call);
    if (!part || turn != null) return; // a message that still streams gets its answer as a chunk
    if (kind === "result") Object.assign(part, { state: "output-available", output: value });
    else if (kind === "error") Object.assign(part, { state: "output-error", errorText: value });
    else Object.assign(part, { state: value.approved ? "approval-responded" : "output-denied" });
  }

  // -- one answer, chunk by chunk ------------------------------------------------------------------------

  chunk(id, chunk) {
    const turn = this.turns.get(id);
    if (!turn || chunk.transient) return;
    const place = this.place(turn.node);
    const message = (place.message ??= { id: "", role: "assistant", parts: [] });
    const { parts } = message;
    const [family, moment] = chunk.type.split(/-(?=[^-]*$)/);
    if (chunk.type === "start") message.id = chunk.messageId ?? message.id;
    else if (family === "text" || family === "reasoning") this.text(turn, parts, family, moment, chunk);
    else if (chunk.type.startsWith("tool-")) tool(parts, chunk);
    else if (chunk.type === "start-step") parts.push({ type: "step-start" });
    else if (chunk.type === "finish-step") turn.open.clear();
    else if (chunk.type.startsWith("data-")) keep(parts, chunk);
    else if (/^(file|source-)/.test(chunk.type)) parts.push(chunk);
  }

  text(turn, parts, family, moment, { id, delta }) {
    const key = `${family} ${id}`;
    if (moment === "end") turn.open.delete(key);
    else if (moment === "start") parts.push(turn.open.set(key, { type: family, text: "" }).get(key));
    else if (turn.open.has(key)) turn.open.get(key).text += delta; // else its head was pruned: the end brings it all
  }
}

function tool(parts, { type, toolCallId, toolName, input, output, errorText, dynamic }) {
  let part = parts.find((part) => part.toolCallId === toolCallId);
  if (!part && toolName) {
    part = { type: dynamic ? "dynamic-tool" : `tool-${toolName}`, toolName, toolCallId, state: "input-streaming" };
    parts.push(part);
  }
  if (!part) return;
  switch (type) {
    case "tool-input-available": return void Object.assign(part, { state: "input-available", input });
    case "tool-input-error": return void Object.assign(part, { state: "output-error", input, errorText });
    case "tool-output-available": return void Object.assign(part, { state: "output-available", output });
    case "tool-output-error": return void Object.assign(part, { state: "output-error", errorText });
    case "tool-output-denied": return void Object.assign(part, { state: "output-denied" });
    case "tool-approval-request": return void Object.assign(part, { state: "approval-requested" });
  }
}

function keep(parts, { type, id, data }) {
  const before = id != null && parts.find((part) => part.type === type && part.id === id);
  if (before) before.data = data;
  else parts.push({ type, id, data });
}
