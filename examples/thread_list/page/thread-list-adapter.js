// assistant-ui's RemoteThreadListAdapter, for everyword's /conversations. A thread's remote id is the conversation's name.

import { createAssistantStream } from "assistant-stream";
import { changeConversation, deleteConversation, getConversation, listConversations, newName } from "./conversations.js";

const KIND = "chat";
const at = (remoteId) => ({ kind: KIND, name: remoteId });

const thread = ({ name, title, archived, updatedAt, ...custom }) => ({
  remoteId: name,
  status: archived ? "archived" : "regular",
  title: title || undefined,
  lastMessageAt: new Date(updatedAt),
  custom: { ...custom, updatedAt }, // status, unread and preview, for the rows
});

// The title that everyword gives a conversation is the beginning of its first question.
function titleOf(messages) {
  const question = messages.find((message) => message.role === "user");
  const parts = question?.content.filter((part) => part.type === "text") ?? [];
  const text = parts.map((part) => part.text).join(" ").trim().replace(/\s+/g, " ");
  return text.length > 200 ? `${text.slice(0, 199).trimEnd()}…` : text;
}

export function threadListAdapter(user) {
  let shown = 0; // how many conversations the pages had: a reload asks for as many
  let connection = 0; // counts the connections of the live list: after a new one, threads look for what they missed
  return {
    connected() {
      connection += 1;
    },
    async list({ after } = {}) {
      const limit = shown && !after ? Math.min(shown, 200) : undefined;
      const { conversations, cursor } = await listConversations({ cursor: after, limit });
      shown = Math.max(20, conversations.length + (after ? shown : 0));
      const threads = conversations.map((each) => thread({ ...each, connection }));
      return { threads, nextCursor: cursor ?? undefined };
    },
    async fetch(remoteId) {
      return thread({ ...(await getConversation(at(remoteId))), connection });
    },
    // A conversation begins with its first question: there is nothing to create.
    async initialize() {
      return { remoteId: newName(user), externalId: undefined };
    },
    async generateTitle(remoteId, messages) {
      return createAssistantStream((controller) => controller.appendText(titleOf(messages)));
    },
    async rename(remoteId, title) {
      await changeConversation(at(remoteId), { title: title || null });
    },
    async archive(remoteId) {
      await changeConversation(at(remoteId), { archived: true });
    },
    async unarchive(remoteId) {
      await changeConversation(at(remoteId), { archived: false });
    },
    async delete(remoteId) {
      await deleteConversation(at(remoteId));
    },
  };
}
