// The list on the left and the inspector on the right: beside the conversation if there is room, else as drawers.

import { at, setText } from "./dom.js";

const THEMES = { "": "system", light: "light", dark: "dark" };

export class Panels {
  constructor(changed) {
    this.changed = changed;
    this.root = document.documentElement;
    this.isNarrow = matchMedia("(max-width: 75rem)");
    at("open-sidebar").addEventListener("click", () => this.drawer("sidebar"));
    at("close-sidebar").addEventListener("click", () => this.closeDrawers());
    at("open-inspector").addEventListener("click", () => this.toggleInspector());
    at("close-inspector").addEventListener("click", () => this.toggleInspector());
    at("shade").addEventListener("click", () => this.closeDrawers());
    at("theme").addEventListener("click", () => this.nextTheme());
    this.isNarrow.addEventListener("change", () => this.closeDrawers());
    this.say();
  }

  drawer(name) {
    this.root.dataset.drawer = name;
    at("shade").hidden = false;
    at(name).querySelector("button").focus();
    this.say();
  }

  /** Close what lies over the conversation; false when nothing does. */
  closeDrawers() {
    const { drawer } = this.root.dataset;
    delete this.root.dataset.drawer;
    at("shade").hidden = true;
    this.say();
    if (drawer) at(`open-${drawer}`).focus();
    return Boolean(drawer);
  }

  toggleInspector() {
    if (this.isNarrow.matches) {
      if (!this.closeDrawers()) this.drawer("inspector");
    } else {
      const isClosed = this.root.dataset.inspector === "closed";
      if (isClosed) delete this.root.dataset.inspector;
      else this.root.dataset.inspector = "closed";
      localStorage.setItem("everyword inspector", isClosed ? "open" : "closed");
    }
    this.say();
  }

  nextTheme() {
    const names = Object.keys(THEMES);
    const next = names[(names.indexOf(this.root.dataset.theme ?? "") + 1) % names.length];
    if (next) this.root.dataset.theme = next;
    else delete this.root.dataset.theme;
    localStorage.setItem("everyword theme", next);
    this.say();
  }

  say() {
    const { drawer, inspector, theme } = this.root.dataset;
    const isShown = this.isNarrow.matches ? drawer === "inspector" : inspector !== "closed";
    at("open-inspector").setAttribute("aria-expanded", String(isShown));
    at("open-sidebar").setAttribute("aria-expanded", String(drawer === "sidebar"));
    for (const id of ["sidebar", "stage", "inspector"]) at(id).inert = Boolean(drawer) && id !== drawer; // keys stay in a drawer
    setText(at("theme-name"), `Theme: ${THEMES[theme ?? ""]}`);
    this.changed();
  }
}
