// What the page says besides the conversation: to screen readers, and in a box for a while.

import { at, h, setAttribute, setText } from "./dom.js";

let told = { isBusy: false, state: "" };

/** Tell screen readers what changed: a connection, an answer. */
export function announce(link, isBusy) {
  const { state } = link;
  const asks = document.querySelector('.tool[data-state="needs approval"], .tool[data-state="needs an answer"]') !== null;
  if (isBusy && !told.isBusy) tell("The agent is answering.");
  else if (!isBusy && told.isBusy) tell([...link.chat.endings.values()].at(-1)?.error ?? (asks ? "The agent is waiting for your answer." : "The answer is complete."));
  if (state !== told.state && told.state && (state === "live" || state === "away")) tell(state !== "live" ? "Connection lost." : told.state === "connecting" ? "Connected." : "Reconnected.");
  told = { isBusy, state };
}

function tell(words) {
  setText(at("news"), words);
}

let complaint = null;

/** Say for a while that something failed. */
export function complain(words) {
  toast(words, { state: "bad" });
}

/** Say something for a while; `act` is a button beside it. */
export function toast(words, { state = "", act = null } = {}) {
  const run = () => { at("toast").hidden = true; act.run(); };
  at("toast").replaceChildren(words, ...(act ? [h("button", { type: "button", onclick: run }, act.label)] : []));
  setAttribute(at("toast"), "data-state", state);
  at("toast").hidden = false;
  clearTimeout(complaint);
  complaint = setTimeout(() => (at("toast").hidden = true), 6000);
}
