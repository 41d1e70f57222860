// The input for questions. A question that was sent and not yet answered survives a reload of the page.

import { at, bytes, h, iconButton } from "./dom.js";
import { randomId } from "./unconfirmed-frames.js";

const LARGEST = 8_000_000;

export class Composer {
  constructor({ ask, changed }) {
    Object.assign(this, { ask, changed, attached: [] });
    this.box = at("question");
    at("composer").addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    this.box.addEventListener("input", () => this.grow());
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.submit(); }
    });
    this.box.addEventListener("paste", (event) => { if (event.clipboardData.files.length) { event.preventDefault(); this.attachAll(event.clipboardData.files); } });
    at("stage").addEventListener("dragover", (event) => event.preventDefault());
    at("stage").addEventListener("drop", (event) => { event.preventDefault(); this.attachAll(event.dataTransfer.files); });
    at("files").addEventListener("change", () => { this.attachAll(at("files").files); at("files").value = ""; });
    at("stop").addEventListener("click", () => this.stop());
  }

  attach(link, path) {
    this.link = link;
    this.shelf = `everyword ${path}`;
    this.box.placeholder = "Ask something";
    this.posted = new Map(); // request → question
    for (const { request, message } of JSON.parse(sessionStorage.getItem(this.shelf) ?? "[]")) {
      this.posted.set(link.chat.ask([...link.chat.stored, message], { request }), message);
    }
  }

  focus() {
    this.box.focus();
  }

  submit() {
    const text = this.box.value.trim();
    if (!text && !this.attached.length) return;
    const parts = [...this.attached, ...(text ? [{ type: "text", text }] : [])];
    this.attached = [];
    this.box.value = "";
    this.grow();
    this.showAttached();
    this.post(parts);
  }

  say(text) {
    this.post([{ type: "text", text }]);
    this.focus();
  }

  post(parts) {
    const message = { id: randomId(), role: "user", parts };
    this.posted.set(this.ask([...this.link.chat.messages, message]), message);
    this.keep();
  }

  stop() {
    const [request] = this.link.chat.running;
    if (request) this.link.chat.stop(request);
  }

  /** Remember new questions that have no answer yet: a page that is loaded again sends them again. */
  keep() {
    const waiting = [...this.posted].filter(([request]) => this.link.chat.questions.has(request));
    this.posted = new Map(waiting);
    const text = JSON.stringify(waiting.map(([request, message]) => ({ request, message })));
    if (text === this.kept) return;
    this.kept = text;
    try {
      sessionStorage.setItem(this.shelf, text);
    } catch {
      // too large to keep: it is still sent by this page
    }
  }

  show(isBusy) {
    const isEmpty = this.box.value.trim() === "" && !this.attached.length;
    at("stop").hidden = !isBusy || !isEmpty;
    at("send").hidden = !at("stop").hidden;
    at("send").disabled = isEmpty;
  }

  grow() {
    this.box.style.height = "auto";
    this.box.style.height = `${this.box.scrollHeight + 2}px`;
    this.changed();
  }

  // -- files -----------------------------------------------------------------------------------------------------

  async attachAll(files) {
    for (const file of files) {
      if (file.size > LARGEST) continue;
      const url = await new Promise((resolve) => {
        const reader = new FileReader();
        reader.onload = () => resolve(reader.result);
        reader.readAsDataURL(file);
      });
      this.attached.push({ type: "file", mediaType: file.type || "application/octet-stream", filename: file.name, url });
    }
    this.showAttached();
    this.changed();
  }

  showAttached() {
    at("attached").hidden = this.attached.length === 0;
    at("attached").replaceChildren(
      ...this.attached.map((part) => {
        const drop = () => { this.attached = this.attached.filter((each) => each !== part); this.showAttached(); this.changed(); };
        return h("li", { className: "chip" }, h("span", {}, part.filename), h("small", {}, bytes(Math.round(part.url.length * 0.75))), iconButton("close", `Remove ${part.filename}`, drop));
      }),
    );
  }
}
