// Folds chunks into a message, like the AI SDK's own client; chunks that do not fit are ignored.

import { readPartial } from "./partial-json.js";

const VOLATILE = ["input", "output", "errorText", "rawInput", "inputEncoding", "preliminary"];
const COPIED = {
  "file": ["mediaType", "url", "providerMetadata"],
  "reasoning-file": ["mediaType", "url", "providerMetadata"],
  "source-url": ["sourceId", "url", "title", "providerMetadata"],
  "source-document": ["sourceId", "mediaType", "title", "filename", "providerMetadata"],
  "custom": ["kind", "providerMetadata"],
  "steering-message": ["id", "parts"],
};

export const isTool = (part) => part.type === "dynamic-tool" || part.type.startsWith("tool-");
export const toolName = (part) => (part.type === "dynamic-tool" ? part.toolName : part.type.replace(/^tool-/, ""));

export class Fold {
  /** @param {object|null} base the message that is continued, if one is */
  constructor(base = null) {
    this.message = base ? structuredClone(base) : { id: "", role: "assistant", parts: [] };
    this.step = this.parts.findLastIndex((part) => part.type === "step-start") + 1;
    this.open = new Map(); // "text 1" → part
    this.inputs = new Map(); // call → {text, name, dynamic, encoding, title, toolMetadata}
    for (const part of this.parts.slice(this.step)) {
      if (!isTool(part) || part.state !== "input-streaming") continue;
      const { rawInput: text = "", inputEncoding: encoding, title, toolMetadata } = part;
      this.inputs.set(part.toolCallId, { text, name: toolName(part), dynamic: part.type === "dynamic-tool", encoding, title, toolMetadata });
    }
  }

  get parts() {
    return this.message.parts;
  }

  apply(chunk) {
    const { type } = chunk;
    if (type.startsWith("data-")) return this.data(chunk);
    if (type in COPIED) return void this.parts.push({ type, ...given(chunk, COPIED[type]) });
    switch (type) {
      case "text-start":
      case "reasoning-start": return this.begin(type.slice(0, -6), chunk);
      case "text-delta":
      case "reasoning-delta": return this.grow(type.slice(0, -6), chunk);
      case "text-end":
      case "reasoning-end": return this.end(type.slice(0, -4), chunk);
      case "start":
        this.merge(chunk.messageMetadata);
        if (chunk.messageId != null) this.message.id = chunk.messageId;
        return;
      case "finish":
      case "message-metadata": return this.merge(chunk.messageMetadata);
      case "start-step":
        this.step = this.parts.push({ type: "step-start" });
        return;
      case "finish-step": return this.open.clear();
      case "reset-step":
        this.open.clear();
        this.inputs.clear();
        this.parts.length = this.step;
        return;
      default: return type.startsWith("tool-") ? this.tool(chunk) : undefined;
    }
  }

  merge(metadata) {
    if (metadata != null) this.message.metadata = merged(this.message.metadata, metadata);
  }

  // -- text and reasoning --------------------------------------------------------------------------------

  begin(family, { id, providerMetadata }) {
    const part = { type: family, ...(family === "reasoning" && { id }), text: "", state: "streaming", ...said({ providerMetadata }) };
    this.parts.push(part);
    this.open.set(`${family} ${id}`, part);
  }

  grow(family, { id, delta, providerMetadata }) {
    const part = this.open.get(`${family} ${id}`);
    if (part) Object.assign(part, { text: part.text + delta }, said({ providerMetadata }));
  }

  end(family, { id, citations, providerMetadata }) {
    const part = this.open.get(`${family} ${id}`);
    if (part) Object.assign(part, { state: "done" }, said({ providerMetadata, ...(family === "text" && { citations }) }));
    this.open.delete(`${family} ${id}`);
  }

  // -- tools ---------------------------------------------------------------------------------------------

  tool(chunk) {
    const { type, toolCallId, toolName: name, dynamic } = chunk;
    const part = this.call(toolCallId);
    switch (type) {
      case "tool-input-start": {
        const input = { text: "", name, dynamic: Boolean(dynamic), encoding: chunk.inputEncoding, ...said({ title: chunk.title, toolMetadata: chunk.toolMetadata }) };
        this.inputs.set(toolCallId, input);
        return update(this.announced(toolCallId, name, dynamic), "input-streaming", said({ inputEncoding: chunk.inputEncoding }), chunk);
      }
      case "tool-input-delta": return this.growInput(chunk);
      case "tool-input-available":
        return update(this.announced(toolCallId, name, dynamic), "input-available", has(chunk, "input"), chunk);
      case "tool-input-error": return this.failInput(chunk);
      case "tool-approval-response": return this.respond(chunk);
    }
    if (!part) return;
    switch (type) {
      case "tool-approval-request": return void Object.assign(part, { state: "approval-requested", approval: approvalOf(chunk) });
      case "tool-output-denied": return void (part.state = "output-denied");
      case "tool-output-available":
        return update(part, "output-available", { ...has(part, "input"), ...has(chunk, "output"), ...said({ preliminary: chunk.preliminary }) }, chunk);
      case "tool-output-error": {
        const raw = part.type === "dynamic-tool" ? {} : has(part, "rawInput");
        return update(part, "output-error", { ...has(part, "input"), ...raw, errorText: chunk.errorText }, chunk);
      }
    }
  }

  growInput({ toolCallId, inputTextDelta }) {
    const input = this.inputs.get(toolCallId);
    if (!input) return;
    input.text += inputTextDelta;
    const value = input.encoding === "text" ? input.text : readPartial(input.text);
    const values = { rawInput: input.text, ...said({ inputEncoding: input.encoding }), ...(value !== undefined && { input: value }) };
    const { title, toolMetadata } = input;
    update(this.announced(toolCallId, input.name, input.dynamic), "input-streaming", values, { title, toolMetadata });
  }

  failInput(chunk) {
    const known = this.parts.slice(this.step).find((part) => isTool(part) && part.toolCallId === chunk.toolCallId);
    const dynamic = known ? known.type === "dynamic-tool" : Boolean(chunk.dynamic);
    const values = { errorText: chunk.errorText };
    if ("input" in chunk) values[dynamic ? "input" : "rawInput"] = chunk.input;
    update(this.announced(chunk.toolCallId, chunk.toolName, dynamic), "output-error", values, { ...chunk, title: undefined });
  }

  respond({ approvalId, approved, reason, providerExecuted, providerMetadata }) {
    const part = this.parts.find((part) => isTool(part) && part.approval?.id === approvalId);
    if (!part) return;
    const approval = { ...part.approval, approved, ...said({ reason }) };
    Object.assign(part, { state: "approval-responded", approval }, said({ providerExecuted, callProviderMetadata: providerMetadata }));
  }

  /** The call's part: of this step if it has one, else the newest. */
  call(id) {
    const matches = (part) => isTool(part) && part.toolCallId === id;
    return this.parts.slice(this.step).find(matches) ?? this.parts.findLast(matches);
  }

  /** The call's part in this step, of the same kind; made if there is none. */
  announced(id, name, dynamic) {
    const isDynamic = Boolean(dynamic);
    let part = this.parts.slice(this.step).find((part) => isTool(part) && part.toolCallId === id && (part.type === "dynamic-tool") === isDynamic);
    if (!part) this.parts.push((part = { type: "dynamic-tool", toolCallId: id }));
    if (isDynamic) part.toolName = name;
    else part.type = `tool-${name}`;
    return part;
  }

  data({ type, transient, ...rest }) {
    if (transient) return;
    const before = rest.id != null && this.parts.find((part) => part.type === type && part.id === rest.id);
    if (before) before.data = rest.data;
    else this.parts.push({ type, ...rest });
  }
}

function update(part, state, values, chunk) {
  part.state = state;
  for (const name of VOLATILE) delete part[name];
  const { title, toolMetadata, providerExecuted, providerMetadata } = chunk;
  const metadata = state.startsWith("output-") ? { resultProviderMetadata: providerMetadata } : { callProviderMetadata: providerMetadata };
  Object.assign(part, values, said({ ...(state.startsWith("input-") && { title }), toolMetadata, providerExecuted, ...metadata }));
}

function approvalOf({ approvalId, approvalDescriptor, signature, inputSchemaInput, reason, isAutomatic }) {
  const told = said({ descriptor: approvalDescriptor, signature, requestReason: reason });
  return { id: approvalId, ...told, ...(inputSchemaInput !== undefined && { inputSchemaInput }), ...(isAutomatic === true && { isAutomatic }) };
}

const given = (chunk, names) => said(Object.fromEntries(names.map((name) => [name, chunk[name]])));
const has = (from, name) => (name in from ? { [name]: from[name] } : {});

/** What has a value. */
function said(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value != null));
}

function merged(base, over) {
  if (base == null || typeof over !== "object" || Array.isArray(over)) return over;
  const result = { ...base };
  for (const [key, value] of Object.entries(over)) {
    if (key === "__proto__" || key === "constructor" || key === "prototype") continue;
    const both = isPlain(result[key]) && isPlain(value);
    result[key] = both ? merged(result[key], value) : value;
  }
  return result;
}

const isPlain = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Whether what is shown has all that has streamed, and more: transcripts may be ahead of the chunks. */
export function isAhead(shown, message) {
  const [all, said] = [textOf(shown), textOf(message)];
  return shown.parts.length >= message.parts.length && all.length > said.length && all.startsWith(said);
}

const textOf = ({ parts }) => parts.filter(({ type }) => type === "text").map(({ text }) => text).join("");
