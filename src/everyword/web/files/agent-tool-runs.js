// The runs of agents that work as tools of this one, folded from `agent-tool-event` frames.

import { Fold } from "./fold.js";

const ENDS = { finished: "completed", error: "error", aborted: "aborted", interrupted: "interrupted" };

export class Runs {
  constructor() {
    this.byId = new Map();
  }

  clear() {
    this.byId.clear();
  }

  /** The runs of one call, or without one those of no call, in the order in which they are to be shown. */
  of(call = undefined) {
    return [...this.byId.values()].filter((run) => run.call === call).sort((one, other) => one.order - other.order);
  }

  take({ parentToolCallId, sequence, event }) {
    const run = this.run(event.runId, parentToolCallId);
    switch (event.kind) {
      case "started":
        return void Object.assign(run, { kind: event.agentType, order: event.order ?? 0, preview: event.inputPreview, display: event.display ?? {} });
      case "chunk":
        return this.chunk(run, sequence, event);
      default:
        if (!(event.kind in ENDS)) return;
        return void Object.assign(run, { status: ENDS[event.kind], summary: event.summary, error: event.error, reason: event.reason });
    }
  }

  run(id, call) {
    if (!this.byId.has(id)) {
      this.byId.set(id, { id, call, kind: "", order: this.byId.size, display: {}, status: "running", fold: new Fold(), seen: new Set(), progress: null });
    }
    return this.byId.get(id);
  }

  chunk(run, sequence, { body, unstoredId }) {
    const chunk = typeof body === "string" ? JSON.parse(body) : body;
    if (chunk.type === "data-agent-progress") return void (run.progress = chunk.data);
    const key = unstoredId ?? (chunk.type === "data-agent-milestone" ? `milestone ${chunk.data?.sequence}` : sequence);
    if (run.seen.has(key)) return; // replays say again what was said
    run.seen.add(key);
    if (chunk.type !== "start" || chunk.messageId) run.fold.apply(chunk);
  }
}
