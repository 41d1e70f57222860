// One stream as a page shows it. History and live frames may come in any order: each index is shown once.

export class Stream {
  constructor() {
    this.chunks = new Map();
    this.restarts = 0;
    this.status = "streaming";
    this.error = null;
    this.solid = -1; // what is missing up to here was never said
    this.early = []; // frames of an attempt whose beginning is not known yet
    this.needsHistory = false;
  }

  // Take in a live frame: a chunk, a cut (a later attempt says something else from there on), or the end.
  frame(frame) {
    const ahead = (frame.restarts ?? 0) - this.restarts;
    if (frame.type === "rsm_stream_end") {
      this.status = frame.status;
      this.error = frame.error ?? null;
    } else if (frame.type === "rsm_stream_cut" && ahead === 1) {
      this.restarts += 1;
      this.solid = Math.min(this.solid, frame.index - 1);
      for (const index of [...this.chunks.keys()]) if (index >= frame.index) this.chunks.delete(index);
    } else if (frame.type === "rsm_stream_chunk" && ahead === 0) {
      this.#add(frame.index, frame.content);
    } else if (ahead > 0) {
      this.early.push(frame); // a cut was missed
    }
    if (this.early.length || this.#shown().length < this.chunks.size) this.needsHistory = true;
  }

  // Take in what the agent answered when it was asked for all that is stored.
  history({ chunks, metadata }) {
    const restarts = metadata?.restarts ?? 0;
    if (!metadata || restarts < this.restarts) return;
    if (restarts > this.restarts) {
      this.chunks.clear();
      this.solid = -1;
      this.restarts = restarts;
    }
    for (const chunk of chunks) {
      this.#add(chunk.index, chunk.content);
      this.solid = Math.max(this.solid, chunk.index);
    }
    if (metadata.status !== "streaming") {
      this.status = metadata.status;
      this.error = metadata.error ?? null;
    }
    this.needsHistory = this.#shown().length < this.chunks.size;
    for (const frame of this.early.splice(0)) this.frame(frame);
  }

  #add(index, content) {
    if (!this.chunks.has(index)) this.chunks.set(index, content);
  }

  // The indexes up to the first gap: what is behind it waits for what is missing.
  #shown() {
    const indexes = [...this.chunks.keys()].sort((a, b) => a - b);
    const gap = indexes.findIndex((index, place) => index - 1 > Math.max(this.solid, indexes[place - 1] ?? -1));
    return gap < 0 ? indexes : indexes.slice(0, gap);
  }

  get text() {
    return this.#shown().map((index) => this.chunks.get(index)).join("");
  }
}
