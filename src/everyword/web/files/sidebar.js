// The list on the left: the conversations, the archived ones, a search, and what can be done with each.

import { ago, at, h, icon, keyed, setAttribute, setText } from "./dom.js";
import { confirmed } from "./dialogs.js";
import { keyOf } from "./conversations.js";
import { RowMenu } from "./row-menu.js";
import { Search } from "./search.js";

const LONGEST_TITLE = 200;
const WORDS = { running: "answering", waiting: "waiting for approval", failed: "failed", idle: "" };
const NOTHING = { active: "No conversations yet.", archived: "Nothing is archived." };

/** A text without the marks of Markdown that are most common. */
const withoutMarks = (text) => text.replace(/(^|\s)#{1,6}\s/g, "$1").replace(/\*\*|`+/g, "");

export const titleOf = (row) => row.title || row.name;

export class Sidebar {
  /**
   * @param {object} acts
   * @param {(kind, name) => void} acts.open
   * @param {(words: string, act?: {label: string, run: () => void}) => void} acts.tell
   * @param {(words: string) => void} acts.complain
   * @param {boolean} showsKinds
   */
  constructor(acts, showsKinds) {
    Object.assign(this, { acts, showsKinds, view: "active", current: null, isEmpty: true, model: null });
    this.list = at("conversations");
    this.search = new Search(at("search"), () => this.show());
    this.menu = new RowMenu({ rename: (row) => this.rename(row), archive: (row) => this.archive(row, !row.archived), remove: (row) => this.remove(row) });
    this.list.addEventListener("click", (event) => this.chosen(event));
    at("view").addEventListener("click", () => this.turn());
    at("more").addEventListener("click", () => this.loadMore());
  }

  /** Show another list of conversations from now on. */
  attach(model) {
    this.model = model;
    this.search.attach(model, this.view);
    model.addEventListener("change", () => this.show());
    this.show();
  }

  chosen(event) {
    const button = event.target.closest("button.more");
    if (button) return this.menu.open(button, button.parentElement.row);
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.acts.open(link.dataset.kind, link.dataset.name);
  }

  // -- what is shown -------------------------------------------------------------------------------------------------

  show() {
    if (!this.model || this.isEditing) return; // a row that moves would take the focus from its box
    const { model, view } = this;
    const { text } = this.search;
    const { rows, hasMore, nothing } = text ? this.search.result() : { rows: this.withCurrent(model.list(view)), hasMore: model.hasMore(view), nothing: NOTHING[view] };
    const { kind, name } = this.current ?? {};
    const focused = this.list.querySelector(":focus-visible");
    const place = [...this.list.children].findIndex((item) => item.contains(focused));
    keyed(this.list, rows.map((row) => ({ ...row, key: keyOf(row) })), makeItem, (item, row) => this.update(item, row, row.kind === kind && row.name === name));
    if (focused && document.activeElement !== focused) this.focusAgain(focused, place);
    at("search-box").hidden = !text && rows.length < 2 && !hasMore;
    at("view").hidden = !model.canChange;
    setText(at("view-name"), view === "active" ? "Archived" : "Back to conversations");
    setAttribute(at("view"), "aria-pressed", String(view === "archived"));
    at("archived-title").hidden = view === "active";
    at("more").hidden = !hasMore;
    at("no-conversations").hidden = rows.length > 0;
    setText(at("no-conversations"), text || model.isLoaded[view] ? nothing : "Loading…");
  }

  /** Keys go on where they were: in a row that has moved, or beside one that is gone. */
  focusAgain(focused, place) {
    const { children } = this.list;
    (focused.isConnected ? focused : children[Math.min(place, children.length - 1)]?.firstChild ?? at("new-chat")).focus();
  }

  /** The conversation on the page is in the list before it has a question. */
  withCurrent(rows) {
    const { current, model } = this;
    if (!current || this.view !== "active" || !model.isLoaded.active || model.get(current.kind, current.name)) return rows;
    return [{ ...current, title: "", preview: "", status: "idle", updatedAt: null, isNew: this.isEmpty }, ...rows];
  }

  update(item, row, isCurrent) {
    const { kind, name, status, updatedAt, isNew, unread } = row;
    const preview = withoutMarks(row.excerpt ?? row.preview);
    item.row = row;
    const [link, more] = item.children;
    const [, title, count, time, under] = link.children;
    const [word, rest] = under.children;
    if (isCurrent) setAttribute(link, "aria-current", "page");
    else link.removeAttribute("aria-current");
    setAttribute(link, "data-state", status);
    const shown = isNew ? "New conversation" : titleOf(row);
    setAttribute(link, "title", `${shown}\n${kind} / ${name}`);
    setText(title, shown);
    const isUnread = unread > 0 && !isCurrent;
    count.hidden = !isUnread;
    setText(count.firstChild, isUnread ? String(unread) : "");
    setText(count.lastChild, isUnread ? " unread" : "");
    setText(time, updatedAt ? ago(updatedAt) : "");
    setText(word, WORDS[status] ?? status);
    const about = updatedAt === null || !preview ? `${kind} / ${name}` : this.showsKinds ? `${kind} · ${preview}` : preview;
    setText(rest, WORDS[status] ? ` · ${about}` : about);
    more.hidden = !this.model.canChange || updatedAt === null;
    setAttribute(more, "aria-label", `Rename, archive or delete ${shown}`);
  }

  // -- views and pages -----------------------------------------------------------------------------------------------

  turn() {
    this.view = this.view === "active" ? "archived" : "active";
    this.search.clear();
    this.search.attach(this.model, this.view);
    if (!this.model.isLoaded[this.view]) this.loadMore();
    this.show();
  }

  loadMore() {
    return this.attempt(() => (this.search.text ? this.search.more() : this.model.loadMore(this.view)));
  }

  // -- what can be done with one -------------------------------------------------------------------------------------

  rename(row) {
    const item = [...this.list.children].find((each) => each.dataset.key === keyOf(row));
    if (!item) return;
    const box = h("input", { type: "text", dir: "auto", value: titleOf(row), maxLength: LONGEST_TITLE, placeholder: "The first question", "aria-label": "Title", enterKeyHint: "done" });
    const form = h("form", { className: "rename" }, box);
    const leave = (isSaved) => {
      if (!this.isEditing) return; // the box loses the focus when it goes
      this.isEditing = false;
      const title = box.value.trim();
      form.remove();
      item.classList.remove("edited");
      if (isSaved && title !== titleOf(row)) this.attempt(() => this.model.rename(row, title));
      this.show();
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      leave(true);
      item.firstChild.focus();
    });
    box.addEventListener("blur", () => leave(true));
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      leave(false);
      item.firstChild.focus();
    });
    this.isEditing = true;
    item.classList.add("edited");
    item.append(form);
    box.select();
    box.focus();
  }

  async archive(row, archived) {
    if (!(await this.attempt(() => this.model.archive(row, archived)))) return;
    const words = `${archived ? "Archived" : "Brought back"}: “${titleOf(row)}”.`;
    this.acts.tell(words, archived ? { label: "Undo", run: () => this.archive(row, false) } : undefined);
  }

  async remove(row) {
    const text = `“${titleOf(row)}”, with its messages and everything else that its agent has stored, is deleted for everybody. This cannot be undone.`;
    if (!(await confirmed({ title: "Delete this conversation?", text, yes: "Delete" }))) return;
    if (await this.attempt(() => this.model.delete(row))) this.acts.tell(`Deleted: “${titleOf(row)}”.`);
  }

  /** Do something that the server may refuse; true if it did not. */
  async attempt(act) {
    try {
      await act();
      return true;
    } catch (error) {
      this.acts.complain(error.message);
      return false;
    }
  }
}

function makeItem({ kind, name }) {
  const query = new URLSearchParams(location.search);
  query.set("agent", kind);
  query.set("name", name);
  const count = h("span", { className: "unread", hidden: true }, h("span"), h("span", { className: "unseen" }));
  const under = h("span", { className: "under", dir: "auto" }, h("span", { className: "word" }), h("span"));
  const link = h("a", { href: `?${query}`, "data-kind": kind, "data-name": name }, h("span", { className: "dot", "aria-hidden": "true" }), h("span", { className: "title", dir: "auto" }), count, h("span", { className: "time" }), under);
  const more = h("button", { type: "button", className: "icon more", "aria-haspopup": "menu", "aria-expanded": "false" }, icon("more"));
  return h("li", {}, link, more);
}
