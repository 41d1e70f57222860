// Reads the log from the playground's feed by cursor: every event without its long parts, and the turns made of them.

const SOON = 200;
const IDLE = 3000;

export class Log extends EventTarget {
  /** @param {string} feed where the log is read  @param {string} agent kind/name  @param {string} query e.g. a token */
  constructor(feed, agent, query = "") {
    super();
    this.feed = feed;
    this.agent = agent;
    this.query = query;
    this.clear();
    this.read();
  }

  clear() {
    this.cursor = null;
    this.events = [];
    this.turns = new Map();
    this.generation = 0;
  }

  /** Something may have happened: look soon. */
  wake() {
    if (this.isClosed || this.timer) return;
    this.timer = setTimeout(() => this.read(), SOON);
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    clearTimeout(this.later);
  }

  address(more) {
    return `${this.feed}/log?${new URLSearchParams([["agent", this.agent], ...Object.entries(more), ...new URLSearchParams(this.query)])}`;
  }

  async read() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.isReading) return void (this.isWoken = true);
    this.isReading = true;
    clearTimeout(this.later);
    try {
      const answer = await fetch(this.address(this.cursor === null ? {} : { after: this.cursor }));
      if (answer.ok) this.take(await answer.json());
    } catch {
      // away: the next look finds it
    }
    this.isReading = false;
    if (this.isClosed) return;
    if (this.isWoken) this.wake();
    this.isWoken = false;
    this.later = setTimeout(() => this.read(), document.hidden ? IDLE * 5 : IDLE);
  }

  take({ head, events }) {
    if (this.cursor !== null && head < this.cursor) this.clear(); // another log under this name
    this.cursor ??= 0;
    for (const event of events) {
      this.events.push(event);
      this.apply(event);
      this.cursor = event.seq;
    }
    if (events.length && this.cursor < head) this.isWoken = true;
    if (events.length) this.dispatchEvent(new Event("change"));
  }

  async event(seq) {
    const answer = await fetch(this.address({ seq }));
    return answer.ok ? (await answer.json()).event : { error: await answer.text() };
  }

  // -- turns ---------------------------------------------------------------------------------------------------

  apply(event) {
    if (event.t === "chat.cleared") this.generation = event.generation;
    if (event.turn == null) return;
    const turn = this.turn(event);
    turn.events.push(event);
    turn.last = event.at;
    switch (event.t) {
      case "turn.accepted":
        return void Object.assign(turn, {
          request: event.request, kind: event.kind, trigger: event.trigger, message: event.message_id, questions: event.message_ids ?? [],
          accepted: event.at, generation: event.generation, isQuiet: event.kind !== "chat" && event.kind !== "continuation",
        });
      case "attempt.started": {
        const before = turn.attempts.at(-1);
        if (before) before.end ??= before.last;
        turn.attempts.push({ number: event.attempt, cause: event.cause ?? "first", start: event.at, last: event.at });
        return;
      }
      case "chunk":
        turn.chunks += 1;
        turn.first ??= event.at;
        return this.chunk(turn, event);
      case "call.started":
        return void (this.call(turn, event.call, event.at).tool ||= event.tool);
      case "attempt.delayed": {
        const before = turn.attempts.at(-1);
        if (before) before.end ??= event.at;
        return void turn.marks.push({ at: event.at, word: `attempt ${event.attempt} delayed` });
      }
      case "attempt.interrupted": {
        const before = turn.attempts.at(-1);
        if (before) before.end ??= event.at;
        return void turn.marks.push({ at: event.at, word: `attempt ${event.attempt} interrupted by a shutdown` });
      }
      case "call.answered":
        return void turn.marks.push({ at: event.at, word: `${event.kind} given` });
      case "turn.cancel_requested":
        return void turn.marks.push({ at: event.at, word: "stop requested" });
      case "turn.ended": {
        const { outcome, reason, error, detail, finish_reason: finish, usage } = event;
        const attempt = turn.attempts.at(-1);
        if (attempt) attempt.end = event.at;
        for (const call of turn.calls.values()) call.end ??= event.at;
        return void Object.assign(turn, { ended: event.at, outcome, reason, error, detail, finish, usage });
      }
    }
  }

  turn({ turn: id, at }) {
    if (!this.turns.has(id)) {
      this.turns.set(id, { id, accepted: at, attempts: [], chunks: 0, calls: new Map(), marks: [], events: [], questions: [], outcome: null });
    }
    return this.turns.get(id);
  }

  chunk(turn, { at, chunk }) {
    const attempt = turn.attempts.at(-1);
    if (attempt) attempt.last = at;
    if (!chunk?.toolCallId) return;
    const call = this.call(turn, chunk.toolCallId, at);
    call.tool ||= chunk.toolName;
    if (chunk.type === "tool-approval-request") turn.marks.push({ at, word: "asks for approval" });
    if (/^tool-(output-|input-error)/.test(chunk.type)) Object.assign(call, { end: at, failed: /error|denied/.test(chunk.type) });
  }

  call(turn, id, at) {
    if (!turn.calls.has(id)) turn.calls.set(id, { id, tool: "", start: at });
    return turn.calls.get(id);
  }

  /** How turns of this conversation ended, where that is worth saying: by their message, and by their question. */
  endings() {
    const endings = new Map();
    const after = new Map();
    for (const turn of this.turns.values()) {
      if (!turn.outcome || turn.isQuiet) continue;
      const isNews = turn.outcome === "error" || turn.outcome === "aborted" || turn.outcome === "skipped";
      for (const [map, key] of [[endings, turn.message], ...turn.questions.map((question) => [after, question])]) {
        if (isNews) map.set(key, turn);
        else map.delete(key);
      }
    }
    return { endings, after };
  }
}
