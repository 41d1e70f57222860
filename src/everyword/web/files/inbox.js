// The inbox: the calls of all conversations that wait for a person, in a dialog, and how many in the sidebar.

import { ago, at, h, keyed, onceClicked, setText } from "./dom.js";
import { argumentsView, expiryText, riskView, summaryView, whyNot } from "./approval-view.js";
import { closeBeside } from "./dialogs.js";

export class Inbox {
  /**
   * @param {import("./approvals.js").Approvals} approvals
   * @param {{titleOf: (approval) => string, open: (kind, name) => void}} acts
   */
  constructor(approvals, acts) {
    Object.assign(this, { approvals, acts });
    this.dialog = at("inbox");
    closeBeside(this.dialog);
    at("open-inbox").addEventListener("click", () => this.open());
    approvals.addEventListener("change", () => this.show());
    this.show();
  }

  open() {
    this.complain("");
    this.dialog.showModal();
    this.show();
  }

  show() {
    const { approvals } = this;
    const { count } = approvals;
    at("open-inbox").hidden = approvals.isRefused || !approvals.isLoaded;
    for (const id of ["inbox-count", "drawer-count"]) {
      at(id).hidden = !count;
      setText(at(id).firstChild, count);
    }
    if (!this.dialog.open) return;
    at("inbox-empty").hidden = approvals.waiting.length > 0;
    at("inbox-more").hidden = !approvals.hasMore;
    const items = approvals.waiting.map((approval) => ({ approval, key: approval.id }));
    keyed(at("inbox-list"), items, ({ approval }) => this.make(approval), (item, { approval }) => this.update(item, approval));
  }

  make(approval) {
    const { tool, summary, risk, input } = approval;
    const answer = (approved) =>
      onceClicked(({ detail }) => {
        if (detail === 0) at("inbox-title").focus(); // a key: its button goes away with the call
        this.answer(approval, approved);
      });
    const go = () => {
      this.dialog.close();
      this.acts.open(approval.kind, approval.name);
    };
    return h(
      "li",
      { className: "card waiting" },
      h("header", {}, h("h3", { className: "name" }, tool), riskView(risk), h("span", { className: "expiry" })),
      summaryView(summary),
      argumentsView(input),
      h("p", { className: "about" }),
      h(
        "div",
        { className: "buttons" },
        h("button", { type: "button", className: "yes", "aria-label": `Approve ${tool}`, onclick: answer(true) }, "Approve"),
        h("button", { type: "button", "aria-label": `Deny ${tool}`, onclick: answer(false) }, "Deny"),
        h("button", { type: "button", onclick: go }, "Open conversation"),
        h("span", { className: "why" }),
      ),
    );
  }

  answer(approval, approved) {
    this.complain("");
    return this.approvals.answer(approval, approved).catch((error) => this.complain(error.message));
  }

  complain(words) {
    setText(at("inbox-problem"), words);
    at("inbox-problem").hidden = !words;
  }

  update(item, approval) {
    const who = approval.askedBy?.name ?? approval.askedBy?.id;
    setText(item.querySelector(".expiry"), expiryText(approval));
    setText(item.querySelector(".about"), `In “${this.acts.titleOf(approval)}”, asked ${agoText(approval.askedAt)}${who ? ` by ${who}` : ""}.`);
    setText(item.querySelector(".why"), whyNot(approval));
    const isBlocked = approval.mayAnswer === false || this.approvals.answering.has(approval.id);
    for (const button of [...item.querySelectorAll(".buttons button")].slice(0, 2)) button.disabled = isBlocked;
  }
}

const agoText = (millis) => (ago(millis) === "now" ? "just now" : `${ago(millis)} ago`);
