// The header of a conversation: whether the page is connected, and who else is.

import { at, h, keyed, setAttribute, setText } from "./dom.js";

const MOST_PRESENT = 4; // initials in the header
const STATES = { connecting: "connecting", live: "live", away: "offline", cut: "disconnected", refused: "refused" };
const AWAY = {
  away: "Nothing you see is lost. This page reconnects by itself.",
  cut: "You cut the connection. The agent continues, and this page catches up when it reconnects.",
};

/** Show who is connected, if this page is not alone. */
export function showPresent(principals) {
  const names = principals.map(({ id, name }) => name || id);
  at("present").hidden = names.length < 2;
  setAttribute(at("present"), "aria-label", `Connected: ${names.join(", ")}`);
  setAttribute(at("present"), "title", `Connected: ${names.join(", ")}`);
  const shown = names.slice(0, MOST_PRESENT).map((each, index) => ({ key: principals[index].id, text: [...each][0].toUpperCase() }));
  if (names.length > MOST_PRESENT) shown.push({ key: "", text: `+${names.length - MOST_PRESENT}` });
  keyed(at("present"), names.length < 2 ? [] : shown, () => h("span", { "aria-hidden": "true" }), (element, { text }) => setText(element, text));
}

/** Show how the page is connected. */
export function showLink(link, isBusy) {
  setAttribute(at("link"), "data-state", link.state === "live" && isBusy ? "busy" : link.state);
  setText(at("link"), link.state === "live" && isBusy ? "answering" : STATES[link.state] ?? link.state);
  at("away").hidden = !["away", "cut", "refused"].includes(link.state);
  setText(at("away"), awayWords(link));
  at("cut").disabled = link.state !== "live";
  at("show-late").disabled = link.state !== "live";
  at("clear").disabled = link.chat.messages.length === 0;
}

function awayWords(link) {
  if (link.state === "refused") return link.reason || "The server refused this page.";
  const why = link.reason ? `The server closed the connection: ${link.reason.replace(/\.?$/, ".")}` : "The server is not reachable.";
  return link.state === "away" ? `${why} ${AWAY.away}` : AWAY[link.state] ?? "";
}
