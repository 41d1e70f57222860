// The search over the list of conversations: by the server where the app has it, else in the titles that are loaded.

import { keyOf } from "./conversations.js";

const PAUSE = 150; // milliseconds without a key until the server is asked
const WORD = /[\p{L}\p{N}]/u; // a text without one finds nothing

export class Search {
  /** @param {HTMLInputElement} box  @param {() => void} changed  called when there is something else to show */
  constructor(box, changed) {
    Object.assign(this, { box, changed, model: null, found: null });
    box.addEventListener("input", () => this.typed());
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault(); // Escape elsewhere stops the answer
      this.clear();
      changed();
    });
  }

  get text() {
    return this.box.value.trim();
  }

  clear() {
    clearTimeout(this.timer);
    this.box.value = "";
    this.found = null;
  }

  /** Search another list, or another view of it, from now on. */
  attach(model, view) {
    Object.assign(this, { model, view, found: null });
    if (this.text) this.typed();
  }

  typed() {
    clearTimeout(this.timer);
    this.changed(); // what is loaded, at once
    if (WORD.test(this.text) && this.model.canSearch) this.timer = setTimeout(() => this.ask(this.text), PAUSE);
    else this.found = null;
  }

  /** Ask the server; with a cursor, for what comes after it. */
  async ask(text, cursor = null) {
    const { model, view } = this;
    const page = await model.search(view, text, cursor).catch(() => null); // unreachable, or refused
    if (model !== this.model || view !== this.view || text !== this.text) return; // for something else by now
    const before = cursor === null ? [] : this.found.conversations;
    this.found = page && { text, conversations: [...before, ...page.conversations], cursor: page.cursor };
    this.changed();
  }

  more() {
    return this.ask(this.found.text, this.found.cursor);
  }

  /** {rows, hasMore, nothing}: what to show, and what to say if that is nothing. */
  result() {
    const { text, found, model, view } = this;
    if (found?.text !== text) return { rows: model.filter(view, text), hasMore: false, nothing: `No title has “${text}”.` };
    const rows = found.conversations
      .map((row) => ({ ...row, ...model.get(row.kind, row.name), key: keyOf(row), excerpt: row.excerpt }))
      .filter((row) => row.archived === (view === "archived") && !model.deleted.has(row.key));
    return { rows, hasMore: found.cursor !== null, nothing: `No conversation has “${text}”.` };
  }
}
