// The conversations of an app whose server has no `/conversations` for this page: from the playground's feed, as of
// their newest turns. Nothing can be changed in it.

const OFTEN = 2500;
const STATUSES = { accepted: "running", running: "running", cancelling: "running", error: "failed" };

export class FeedConversations extends EventTarget {
  canChange = false;
  canSearch = false;

  /** @param {string|null} feed  @param {string} query e.g. a token */
  constructor(feed, query = "") {
    super();
    Object.assign(this, { feed, query, rows: [], isLoaded: { active: !feed, archived: true } });
    if (feed) this.read();
  }

  get(kind, name) {
    return this.rows.find((row) => row.kind === kind && row.name === name);
  }

  list() {
    return this.rows;
  }

  filter(view, text) {
    const wanted = text.toLowerCase();
    return this.rows.filter(({ title, name }) => `${title}\n${name}`.toLowerCase().includes(wanted));
  }

  hasMore() {
    return false;
  }

  async read() {
    if (!document.hidden) {
      const answer = await fetch(`${this.feed}/agents${this.query && `?${this.query}`}`).catch(() => null);
      const listed = answer?.ok ? await answer.json().catch(() => null) : null; // away: what is shown stays
      if (listed) this.show(listed.agents);
    }
    setTimeout(() => this.read(), OFTEN);
  }

  show(agents) {
    this.rows = agents.map(({ kind, name, preview, status, at }) => ({ kind, name, title: preview, preview: "", status: STATUSES[status] ?? "idle", updatedAt: at, unread: null, archived: false }));
    this.isLoaded.active = true;
    this.dispatchEvent(new Event("change"));
  }
}
