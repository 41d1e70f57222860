// Requests for the server's lists: `/conversations` and `/approvals`.

export class Lists {
  /** @param {string} root path before both  @param {"all"|"mine"} scope  @param {string} query e.g. a token */
  constructor(root, scope, query = "") {
    Object.assign(this, { root, scope, query });
  }

  /** The address of a resource; parts of its path are encoded. */
  address(parts, asked = {}) {
    const path = parts.map(encodeURIComponent).join("/");
    const query = new URLSearchParams([...Object.entries(asked), ...new URLSearchParams(this.query)]).toString();
    return `${this.root}/${path}${query && `?${query}`}`;
  }

  /** The address of a list of what the scope has. */
  list(name, asked = {}) {
    return this.address([name], { scope: this.scope, ...asked });
  }

  get(address) {
    return this.ask(address);
  }

  change(method, parts, body) {
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    return this.ask(this.address(parts), { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  }

  /** Ask, and return what the answer has; its text is the message of the error that a refusal throws. */
  async ask(address, options) {
    const answer = await fetch(address, options).catch(() => null);
    if (!answer) throw Object.assign(new Error("The server is not reachable."), { status: 0 });
    if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim() || `The server answered ${answer.status}.`), { status: answer.status });
    return answer.status === 204 ? null : answer.json();
  }
}
