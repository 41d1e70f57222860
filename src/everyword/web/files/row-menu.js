// The menu of a conversation in the list: rename, archive or bring back, delete.

import { at, setText } from "./dom.js";

const GAP = 4; // pixels between the button and the menu

export class RowMenu {
  /** @param {{rename: (row) => void, archive: (row) => void, remove: (row) => void}} acts */
  constructor(acts) {
    this.menu = at("row-menu");
    for (const name of ["rename", "archive", "remove"]) at(`menu-${name}`).addEventListener("click", () => this.choose(acts[name]));
    this.menu.addEventListener("toggle", ({ newState }) => newState === "closed" && this.closed());
    this.menu.addEventListener("keydown", (event) => this.step(event));
    addEventListener("resize", () => this.menu.hidePopover());
    at("conversations").closest("nav").addEventListener("scroll", () => this.menu.hidePopover());
  }

  open(button, row) {
    Object.assign(this, { button, row });
    setText(at("menu-archive"), row.archived ? "Bring back" : "Archive");
    this.menu.showPopover();
    const place = button.getBoundingClientRect();
    const isRoomBelow = place.bottom + GAP + this.menu.offsetHeight < innerHeight;
    this.menu.style.top = `${isRoomBelow ? place.bottom + GAP : place.top - GAP - this.menu.offsetHeight}px`;
    this.menu.style.left = `${Math.max(GAP, Math.min(place.left, innerWidth - this.menu.offsetWidth - GAP))}px`;
    button.setAttribute("aria-expanded", "true");
    this.menu.querySelector("button").focus();
  }

  choose(act) {
    const { row } = this;
    this.menu.hidePopover();
    act(row);
  }

  closed() {
    this.button?.setAttribute("aria-expanded", "false");
  }

  step(event) {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const items = [...this.menu.querySelectorAll("button")];
    items[(items.indexOf(document.activeElement) + move + items.length) % items.length].focus();
  }
}
