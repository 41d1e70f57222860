// The list of conversations from the playground's feed, newest first, with the status of each.

import { ago, at, h, keyed, setAttribute, setText } from "./dom.js";

const OFTEN = 2500;
const SOON = 250;
const STATES = { accepted: "waiting", running: "answering", cancelling: "stopping", error: "failed", aborted: "stopped", completed: "", skipped: "", idle: "" };

export class Sidebar {
  /** @param {string|null} feed  @param {(kind, name) => void} open  @param {string} query e.g. a token */
  constructor(feed, open, query = "") {
    Object.assign(this, { feed, open, query, agents: [], current: null });
    at("conversations").addEventListener("click", (event) => this.chosen(event));
    if (feed) this.read();
  }

  chosen(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.open(link.dataset.kind, link.dataset.name);
  }

  /** Something may have changed: look soon. */
  wake() {
    if (this.feed && !this.soon) this.soon = setTimeout(() => this.read(), SOON);
  }

  async read() {
    clearTimeout(this.soon);
    clearTimeout(this.timer);
    this.soon = null;
    if (!document.hidden) {
      try {
        const answer = await fetch(`${this.feed}/agents${this.query ? `?${this.query}` : ""}`);
        if (answer.ok) this.agents = (await answer.json()).agents;
        this.show();
      } catch {
        // away: what is shown stays
      }
    }
    this.timer = setTimeout(() => this.read(), OFTEN);
  }

  show() {
    const { kind, name } = this.current ?? {};
    const isListed = this.agents.some((each) => each.kind === kind && each.name === name);
    const rows = isListed || !kind ? this.agents : [{ kind, name, preview: "", status: "idle", at: null, isNew: true }, ...this.agents];
    at("no-conversations").hidden = rows.length > 0;
    keyed(at("conversations"), rows.map((each) => ({ ...each, key: `${each.kind}/${each.name}` })), makeItem, (item, row) => updateItem(item, row, row.kind === kind && row.name === name));
  }
}

function makeItem({ kind, name }) {
  const query = new URLSearchParams(location.search);
  query.set("agent", kind);
  query.set("name", name);
  return h("li", {}, h("a", { href: `?${query}`, "data-kind": kind, "data-name": name }, h("span", { className: "dot" }), h("span", { className: "title" }), h("span", { className: "time" }), h("span", { className: "under" })));
}

function updateItem(item, { kind, name, preview, status, at: when, isNew }, isCurrent) {
  const link = item.firstChild;
  const [, title, time, under] = link.children;
  if (isCurrent) setAttribute(link, "aria-current", "page");
  else link.removeAttribute("aria-current");
  setAttribute(link, "data-state", status);
  setText(title, preview || (isNew ? "New conversation" : name));
  setText(time, when ? ago(when) : "");
  setText(under, [`${kind} / ${name}`, STATES[status] ?? status].filter(Boolean).join(", "));
}
