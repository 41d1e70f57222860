// The AI SDK's own hook with its default transport, used as in a user's page.
// Options come as JSON in the query string; tests use `window.chat` and `window.seen`.

import { useLayoutEffect } from "react";
import { createRoot } from "react-dom/client";
import { Chat as Conversation, useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";
import { look, note } from "./recorder.js";

const given = JSON.parse(new URLSearchParams(location.search).get("options") ?? "{}");
const agent = `/agents/${given.agent}/${encodeURIComponent(given.name)}`;
const transport = new DefaultChatTransport({ api: `${agent}/chat`, body: given.body });
const isComplete = (conversation) =>
  lastAssistantMessageIsCompleteWithToolCalls(conversation) ||
  lastAssistantMessageIsCompleteWithApprovalResponses(conversation);

function optionsFor(messages) {
  return {
    id: given.name,
    messages,
    transport,
    sendAutomaticallyWhen: isComplete,
    onError: (error) => note("error", error.message),
    onFinish: ({ message, isAbort, isDisconnect, isError }) =>
      note("finish", { id: message?.id, isAbort, isDisconnect, isError }),
    onData: (part) => note("data", part),
    onToolCall: ({ toolCall }) => {
      note("tool call", toolCall);
      const output = given.tools?.[toolCall.toolName];
      if (output !== undefined)
        window.chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output });
    },
  };
}

const stored = await (await fetch(`${agent}/get-messages?reserve=1`)).json();
const options = optionsFor(stored);
// The hook of `ai` 6 hides from its chat that the transport replays; a chat of one's own knows it.
const forHook = given.own ? { chat: new Conversation(options) } : options;

function Chat() {
  const chat = useChat({ ...forHook, resume: true });
  useLayoutEffect(() => {
    window.chat = { ...chat, halt: () => fetch(`${agent}/chat/stop`, { method: "POST" }) };
    look(chat);
  });
  return <main data-status={chat.status}>{chat.messages.length}</main>;
}

createRoot(document.getElementById("root")).render(<Chat />);
