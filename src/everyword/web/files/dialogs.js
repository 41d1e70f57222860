// Questions before something is lost.

import { at, setText } from "./dom.js";

/** Ask a person; true if the answer is yes. Escape and a click beside the dialog mean no. */
export function confirmed({ title, text, yes }) {
  const dialog = at("confirm");
  setText(at("confirm-title"), title);
  setText(at("confirm-text"), text);
  setText(at("confirm-yes"), yes);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

/** Let a click beside a dialog close it. */
export function closeBeside(dialog) {
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
