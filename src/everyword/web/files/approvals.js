// The calls that wait for a person, over all conversations: read from the server, kept up to date, and answered.

import { ListStream } from "./list-stream.js";

const MOST = 200;

/** Dispatches "change" when what it has is different. */
export class Approvals extends EventTarget {
  /** @param {import("./lists.js").Lists} lists */
  constructor(lists) {
    super();
    Object.assign(this, { lists, waiting: [], isLoaded: false, isRefused: false, hasMore: false, answering: new Set() });
    new ListStream(lists.list("approvals", { limit: MOST }), {
      take: ({ approvals, cursor }) => this.take(approvals, cursor !== null),
      refused: () => {
        this.isRefused = true;
        this.changed();
      },
    });
  }

  take(approvals, hasMore) {
    Object.assign(this, { waiting: approvals, hasMore, isLoaded: true });
    const ids = new Set(approvals.map(({ id }) => id));
    this.answering = new Set([...this.answering].filter((id) => ids.has(id)));
    this.changed();
  }

  /** How many wait, as text; empty for none. */
  get count() {
    return this.waiting.length ? `${this.waiting.length}${this.hasMore ? "+" : ""}` : "";
  }

  /** The waiting call of a conversation with this id. */
  of({ kind, name }, toolCallId) {
    return this.waiting.find((each) => each.toolCallId === toolCallId && each.kind === kind && each.name === name);
  }

  async answer({ id }, approved) {
    this.answering.add(id);
    this.changed();
    try {
      await this.lists.change("POST", ["approvals", id], { approved });
    } catch (error) {
      this.answering.delete(id);
      this.changed();
      throw error;
    }
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}
