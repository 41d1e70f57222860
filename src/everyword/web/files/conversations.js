// The conversations that the sidebar lists: read from the server, kept up to date, searched and changed.

import { ListStream } from "./list-stream.js";

export const keyOf = ({ kind, name }) => `${kind}/${name}`;
const SIMPLE = /^\p{L}{1,50}$/u; // a query that no server with a search refuses
const newestFirst = (one, other) => other.updatedAt - one.updatedAt;

/**
 * Dispatches "change" when what it has is different, "removed" with the kind and name of a conversation that is no
 * more, and "refused" when the server has no list for this page.
 */
export class Conversations extends EventTarget {
  canChange = true;
  canSearch = true; // until the server says that the app has no search

  /** @param {import("./lists.js").Lists} lists */
  constructor(lists) {
    super();
    this.lists = lists;
    this.rows = new Map(); // kind/name → conversation
    this.cursors = { active: null, archived: null }; // of the next pages
    this.isLoaded = { active: false, archived: false };
    this.deleted = new Set(); // known to be deleted: a late answer does not bring them back
    this.stream = new ListStream(lists.list("conversations"), {
      take: (change) => this.take(change),
      refused: (status) => this.dispatchEvent(Object.assign(new Event("refused"), { status })),
    });
  }

  get(kind, name) {
    return this.rows.get(keyOf({ kind, name }));
  }

  /** What is loaded of a view: "active" or "archived". */
  list(view) {
    return [...this.rows.values()].filter(({ archived }) => archived === (view === "archived")).sort(newestFirst);
  }

  /** What is loaded and has a text in its title, its preview or its name. */
  filter(view, text) {
    const wanted = text.toLowerCase();
    return this.list(view).filter(({ title, preview, name }) => `${title}\n${preview}\n${name}`.toLowerCase().includes(wanted));
  }

  /** Return a page of what the server finds. */
  async search(view, query, cursor = null) {
    const asked = { query, archived: view === "archived" ? 1 : 0, ...(cursor === null ? {} : { cursor }) };
    try {
      return await this.lists.get(this.lists.list("conversations", asked));
    } catch (error) {
      if (error.status === 400 && SIMPLE.test(query)) this.canSearch = false;
      throw error;
    }
  }

  hasMore(view) {
    return this.cursors[view] !== null;
  }

  async loadMore(view) {
    const cursor = this.cursors[view];
    const asked = { archived: view === "archived" ? 1 : 0, ...(cursor === null ? {} : { cursor }) };
    const page = await this.lists.get(this.lists.list("conversations", asked));
    if (this.cursors[view] !== cursor) return; // another answer was first
    this.put(page.conversations);
    this.cursors[view] = page.cursor;
    this.isLoaded[view] = true;
    this.changed();
  }

  /** Look one up that is on no page yet, because it is old or archived. */
  async find(kind, name) {
    this.put([await this.lists.get(this.lists.address(["conversations", kind, name]))]);
    this.changed();
  }

  async rename(row, title) {
    this.put([await this.lists.change("PATCH", ["conversations", row.kind, row.name], { title: title || null })]);
    this.changed();
  }

  async archive(row, archived) {
    this.put([await this.lists.change("PATCH", ["conversations", row.kind, row.name], { archived })]);
    this.changed();
  }

  async delete(row) {
    await this.lists.change("DELETE", ["conversations", row.kind, row.name]).catch((error) => {
      if (error.status !== 404) throw error; // somebody else was first
    });
    this.drop(row);
    this.changed();
  }

  async markRead(row) {
    this.put([await this.lists.change("POST", ["conversations", row.kind, row.name, "read"], { messages: row.messages })]);
    this.changed();
  }

  // -- what the server tells -----------------------------------------------------------------------------------------

  take(change) {
    if (change.type === "list") return void this.begin(change);
    if (change.type === "changed") {
      this.deleted.delete(keyOf(change.conversation));
      this.put([change.conversation]);
    } else {
      this.drop(change);
    }
    this.changed();
  }

  /** Start from a first page again: at first, and when the connection was lost. What else was loaded is checked. */
  async begin({ conversations, cursor }) {
    const last = conversations.at(-1)?.updatedAt ?? 0;
    const older = cursor === null ? [] : this.list("active").filter(({ updatedAt }) => updatedAt < last);
    const shown = [...this.list("archived"), ...older, ...conversations];
    this.rows = new Map(shown.map((row) => [keyOf(row), row]));
    this.deleted.clear();
    if (!older.length) this.cursors.active = cursor;
    this.isLoaded.active = true;
    this.changed();
    await this.check(older, cursor, "active");
    if (this.isLoaded.archived) await this.check(this.list("archived"), undefined, "archived");
  }

  /** Read the pages that have these rows again, and drop the rows that no page has. */
  async check(rows, cursor, view) {
    let left = rows;
    while (left.length && cursor !== null) {
      const asked = { archived: view === "archived" ? 1 : 0, ...(cursor === undefined ? {} : { cursor }) };
      const page = await this.lists.get(this.lists.list("conversations", asked)).catch(() => null);
      if (page === null) return; // away again: the next connection checks
      cursor = page.cursor;
      const last = cursor === null ? -Infinity : (page.conversations.at(-1)?.updatedAt ?? Infinity);
      const found = new Set(page.conversations.map(keyOf));
      const gone = left.filter((row) => row.updatedAt > last && !found.has(keyOf(row)));
      for (const row of gone) if (this.rows.get(keyOf(row)) === row) this.rows.delete(keyOf(row));
      this.put(page.conversations);
      left = left.filter((row) => row.updatedAt <= last && !found.has(keyOf(row)));
      this.changed();
    }
  }

  put(conversations) {
    for (const row of conversations) {
      const known = this.rows.get(keyOf(row));
      if (!this.deleted.has(keyOf(row)) && !(known && known.updatedAt > row.updatedAt)) this.rows.set(keyOf(row), row);
    }
  }

  drop({ kind, name }) {
    const key = keyOf({ kind, name });
    this.deleted.add(key);
    if (this.rows.delete(key)) this.dispatchEvent(Object.assign(new Event("removed"), { kind, name }));
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}
