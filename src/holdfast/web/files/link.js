// The line to one agent: its events by cursor, coming back by itself, and questions that are sent until they arrive.

const SOONEST = 300;
const LATEST = 2000;

export class Link extends EventTarget {
  /** @param {string} url of the agent  @param {import("./conversation.js").Conversation} conversation */
  constructor(url, conversation) {
    super();
    this.url = url;
    this.conversation = conversation;
    this.state = "connecting"; // live, away, refused
    this.reason = "";
    this.shelf = `holdfast ${url}`;
    this.outgoing = JSON.parse(sessionStorage.getItem(this.shelf) ?? "[]"); // {request, message, refusal?}
    this.wait = SOONEST;
    addEventListener("online", () => this.open());
    addEventListener("pagehide", () => this.source?.close());
    addEventListener("pageshow", (event) => event.persisted && this.open());
    this.open();
  }

  open() {
    this.source?.close();
    clearTimeout(this.timer);
    const { cursor } = this.conversation;
    const source = (this.source = new EventSource(cursor === null ? `${this.url}/events` : `${this.url}/events?after=${cursor}`));
    source.onopen = () => {
      this.wait = SOONEST;
      this.become("live");
      this.deliver();
    };
    source.addEventListener("snapshot", (event) => {
      this.conversation.start(JSON.parse(event.data));
      this.moved(event);
    });
    source.onmessage = (event) => {
      this.conversation.apply(JSON.parse(event.data));
      this.moved(event);
    };
    source.onerror = () => {
      const refused = source.readyState === EventSource.CLOSED;
      source.close();
      if (this.source !== source) return;
      this.become("away");
      if (refused) this.ask();
      this.timer = setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(this.wait * 1.5, LATEST);
    };
  }

  moved(event) {
    this.conversation.cursor = Number(event.lastEventId);
    const known = new Set([...this.conversation.turns.values()].map((turn) => turn.request));
    const here = new Set(this.conversation.path.map(({ message }) => message?.id));
    this.keep(this.outgoing.filter(({ request, message }) => !known.has(request) && !here.has(message.id)));
    this.changed();
  }

  /** An EventSource does not say why it was refused; a plain request does. */
  async ask() {
    const answer = await fetch(`${this.url}/get-messages`).catch(() => null);
    if (!answer || answer.ok || answer.status >= 500) return;
    this.reason = await answer.text();
    clearTimeout(this.timer);
    this.become("refused");
  }

  become(state) {
    this.state = state;
    this.changed();
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }

  // -- asking ----------------------------------------------------------------------------------------------

  send(text) {
    const message = { id: fresh(), role: "user", parts: [{ type: "text", text }] };
    this.keep([...this.outgoing, { request: fresh(), message }]);
    this.changed();
    this.deliver();
  }

  /** Send what waits, in order. The key makes it safe to send twice: a question is accepted once. */
  async deliver() {
    if (this.delivering) return;
    this.delivering = true;
    try {
      for (const item of [...this.outgoing]) {
        if (item.sent || item.refusal) continue;
        const answer = await fetch(`${this.url}/chat`, {
          method: "POST",
          headers: { "content-type": "application/json", "idempotency-key": item.request, prefer: "respond-async" },
          body: JSON.stringify({ messages: [item.message], trigger: "submit-message" }),
        });
        if (answer.status >= 500) break; // comes back: so do we
        if (answer.ok) item.sent = true;
        else item.refusal = await answer.text();
        this.keep(this.outgoing);
        this.changed();
      }
    } catch {
      // the server is away: what waits is sent when the line is open again
    } finally {
      this.delivering = false;
    }
  }

  keep(outgoing) {
    if (outgoing.length === 0 && this.outgoing.length === 0) return;
    this.outgoing = outgoing;
    const waiting = outgoing.map(({ request, message }) => ({ request, message }));
    sessionStorage.setItem(this.shelf, JSON.stringify(waiting));
  }

  async stop() {
    const { running } = this.conversation;
    if (!running) return;
    const body = JSON.stringify({ requestId: running.request });
    const headers = { "content-type": "application/json" };
    await fetch(`${this.url}/chat/stop`, { method: "POST", headers, body }).catch(() => null);
  }
}

export function fresh() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
