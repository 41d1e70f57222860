// The inspector: the newest turn, the log, this page's frames, the state, and the usage.

import { at, h, setText } from "./dom.js";
import { FramesView, LogView } from "./frame-views.js";
import { Timeline, usageText } from "./timeline.js";
import { jsonView } from "./json-view.js";

const TABS = ["turns", "log", "frames", "state"];

export class Inspector {
  constructor() {
    this.turnsView = new Timeline(at("panel-turns"));
    this.logView = new LogView(at("panel-log"));
    this.framesView = new FramesView(at("panel-frames"));
    this.stateView = new StateView(at("panel-state"));
    for (const name of TABS) at(`tab-${name}`).addEventListener("click", () => this.choose(name));
    at("tabs").addEventListener("keydown", (event) => this.step(event));
    this.tab = TABS.includes(localStorage.getItem("everyword tab")) ? localStorage.getItem("everyword tab") : "turns";
  }

  attach(link, log) {
    this.link = link;
    this.log = log;
    for (const name of ["turns", "log"]) at(`tab-${name}`).hidden = !log;
    this.turnsView.chosen = null;
    this.choose(!log && (this.tab === "turns" || this.tab === "log") ? "frames" : this.tab);
  }

  choose(name) {
    this.tab = name;
    localStorage.setItem("everyword tab", name);
    for (const each of TABS) {
      at(`tab-${each}`).setAttribute("aria-selected", String(each === name));
      at(`tab-${each}`).tabIndex = each === name ? 0 : -1;
      at(`panel-${each}`).hidden = each !== name;
    }
    this.show();
  }

  step(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    const shown = TABS.filter((name) => !at(`tab-${name}`).hidden);
    const next = shown[(shown.indexOf(this.tab) + move + shown.length) % shown.length];
    this.choose(next);
    at(`tab-${next}`).focus();
  }

  get isShown() {
    return at("inspector").checkVisibility();
  }

  /** Show the chosen tab as things stand; nothing while nobody can see it. */
  show() {
    if (!this.link || !this.isShown) return;
    if (this.tab === "turns") this.turnsView.show(this.log);
    else if (this.tab === "log") this.logView.show(this.log);
    else if (this.tab === "frames") this.framesView.show(this.link);
    else this.stateView.show(this.link, this.log);
  }
}

class StateView {
  constructor(parent) {
    this.value = h("div");
    this.box = h("textarea", { rows: 6, className: "code", "aria-label": "The new state, as JSON" });
    this.problem = h("p", { className: "ending error", hidden: true });
    const form = h("form", { className: "edit", hidden: true }, this.box, h("div", { className: "buttons" }, h("button", { type: "submit", className: "yes" }, "Set the state"), h("button", { type: "button", onclick: () => this.edit(false) }, "Cancel")));
    this.form = form;
    this.change = h("button", { type: "button", onclick: () => this.edit(true) }, "Change it");
    this.usage = h("dl", { className: "facts" });
    this.identity = h("dl", { className: "facts" });
    form.addEventListener("submit", (event) => this.set(event));
    parent.append(h("h3", {}, "State"), this.value, this.problem, this.change, form, h("h3", {}, "Usage"), this.usage, h("h3", {}, "This socket"), this.identity);
  }

  edit(isOpen) {
    this.form.hidden = !isOpen;
    this.change.hidden = isOpen;
    if (isOpen) {
      this.box.value = JSON.stringify(this.link.chat.state ?? {}, null, 2);
      this.box.focus();
    }
  }

  set(event) {
    event.preventDefault();
    try {
      this.link.chat.setState(JSON.parse(this.box.value));
      this.edit(false);
      this.show(this.link, this.log);
    } catch (error) {
      this.problem.hidden = false;
      setText(this.problem, `That is not JSON: ${error.message}`);
    }
  }

  show(link, log) {
    Object.assign(this, { link, log });
    const { chat } = link;
    const told = JSON.stringify(chat.state);
    if (this.value.told !== told || !this.value.firstChild) {
      this.value.told = told;
      this.value.replaceChildren(chat.state === undefined ? h("p", { className: "nothing" }, "This agent has no state.") : jsonView(chat.state));
    }
    this.problem.hidden = !chat.stateError;
    if (chat.stateError) setText(this.problem, chat.stateError);
    facts(this.usage, usageFacts(log));
    facts(this.identity, [["agent", chat.identity?.agent ?? "unknown"], ["name", chat.identity?.name ?? "unknown"], ["client id", link.owner], ["connected", `${link.opened} times`], ["frames", String(link.count)]]);
  }
}

function usageFacts(log) {
  const turns = [...(log?.turns.values() ?? [])];
  const totals = {};
  for (const { usage } of turns) {
    for (const [name, value] of Object.entries(usage ?? {})) if (typeof value === "number") totals[name] = (totals[name] ?? 0) + value;
  }
  const counts = {};
  for (const { outcome } of turns) counts[outcome ?? "open"] = (counts[outcome ?? "open"] ?? 0) + 1;
  const outcomes = Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ");
  return [["turns", outcomes || "none"], ["chunks", String(turns.reduce((sum, { chunks }) => sum + chunks, 0))], ["tokens", usageText(totals) || "not reported"]];
}

function facts(list, rows) {
  const told = JSON.stringify(rows);
  if (list.told === told) return;
  list.told = told;
  list.replaceChildren(...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
