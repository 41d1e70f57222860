// One thread of assistant-ui: useChat with everyword's HTTP interface, in step with what other tabs do.

import { useEffect, useMemo, useRef } from "react";
import { useChat } from "@ai-sdk/react";
import { useAui, useAuiState } from "@assistant-ui/react";
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { storedMessages } from "./conversations.js";

const address = (remoteId) => `/agents/chat/${encodeURIComponent(remoteId)}`;

// Sends a question or an approval. If the server is not reached, it is sent when the server is back, except a question
// that the server has by then: the thread goes on as after any lost connection. The first answer to a call counts.
async function send(url, options) {
  try {
    return await fetch(url, options);
  } catch (lost) {
    if (options.method !== "POST" || options.signal?.aborted) throw lost;
    const stored = await storedMessages(`${url.replace(/\/chat$/, "")}/get-messages`, () => options.signal?.aborted);
    options.signal?.throwIfAborted();
    const last = JSON.parse(options.body).messages.at(-1);
    if (stored === null || (last.role === "user" && stored.some(({ id }) => id === last.id))) throw lost;
    return fetch(url, options);
  }
}

export function useThread() {
  const aui = useAui();
  const id = useAuiState((state) => state.threadListItem.id);
  const remoteId = useAuiState((state) => state.threadListItem.remoteId);
  const custom = useAuiState((state) => state.threadListItem.custom);

  const transport = useMemo(
    () =>
      new DefaultChatTransport({
        fetch: send,
        prepareSendMessagesRequest: async ({ messages, trigger, messageId }) => {
          const { remoteId } = await aui.threadListItem.initialize();
          return { api: `${address(remoteId)}/chat`, body: { messages, trigger, messageId } };
        },
        prepareReconnectToStreamRequest: async () => {
          const { remoteId } = await aui.threadListItem.initialize();
          return { api: `${address(remoteId)}/chat/stream` };
        },
      }),
    [aui],
  );
  const chat = useChat({
    id,
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const latest = useRef(chat);
  latest.current = chat;

  // Load the messages when the thread is opened, and when the list says that the conversation went on without this tab.
  const revision = custom && `${custom.connection} ${custom.status} ${custom.messages}`;
  const isBusy = chat.status === "submitted" || chat.status === "streaming";
  const known = useRef(undefined);
  useEffect(() => {
    if (isBusy) known.current = revision; // what changes now is this tab's own turn
    if (!remoteId || isBusy || revision === known.current) return;
    let isLate = false;
    async function load() {
      const stored = await storedMessages(`${address(remoteId)}/get-messages?reserve=1`, () => isLate);
      if (stored === null || isLate) return;
      known.current = revision;
      latest.current.setMessages(stored);
      if (custom.status !== "failed") latest.current.clearError(); // the connection was lost, and the answer was not
      if (custom.status === "running") await latest.current.resumeStream();
    }
    load().catch(() => {}); // the stream was lost; the list is loaded again when the server is back
    return () => {
      isLate = true;
    };
  }, [remoteId, revision, isBusy]);

  // useChat's own stop only leaves the stream, or takes back what no server has.
  const stop = () => fetch(`${address(remoteId)}/chat/stop`, { method: "POST" }).catch(chat.stop);
  return useAISDKRuntime({ ...chat, stop });
}
