// Follows a list of the server: a response that does not end, with one JSON value in each server-sent event.

const SOONEST = 500; // milliseconds until the first new request
const LATEST = 5000;
const FINAL = new Set([400, 401, 403, 404, 405, 501]); // statuses that another request would get, too

export class ListStream {
  /**
   * @param {string} address
   * @param {{take: (value) => void, refused?: (status: number) => void}} listener
   */
  constructor(address, { take, refused = () => {} }) {
    Object.assign(this, { address, take, refused, wait: SOONEST, request: null, isRefused: false });
    document.addEventListener("visibilitychange", () => this.follow());
    addEventListener("pageshow", () => this.follow());
    addEventListener("online", () => this.follow());
    this.follow();
  }

  /** Only a page that is seen follows: a browser has six connections to a server, shared by all of its tabs. */
  follow() {
    clearTimeout(this.timer);
    if (document.hidden) this.request?.abort();
    else if (!this.request && !this.isRefused) this.open();
  }

  async open() {
    const request = (this.request = new AbortController());
    const answer = await fetch(this.address, { headers: { accept: "text/event-stream" }, signal: request.signal }).catch(() => null);
    if (answer?.ok) {
      this.wait = SOONEST;
      await this.read(answer);
    } else if (FINAL.has(answer?.status)) {
      this.isRefused = true;
      this.refused(answer.status);
    }
    this.request = null;
    if (document.hidden || this.isRefused) return;
    this.timer = setTimeout(() => this.follow(), this.wait);
    this.wait = Math.min(this.wait * 1.5, LATEST);
  }

  async read(answer) {
    const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const piece = await pieces.read().catch(() => ({ done: true })); // lost, or no longer wanted
      if (piece.done) return;
      const events = (rest + piece.value).split("\n\n");
      rest = events.pop();
      for (const event of events) if (event.startsWith("data:")) this.take(JSON.parse(event.slice(5)));
    }
  }
}
