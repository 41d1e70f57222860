// The stock hooks, unchanged. The server is the one that this page came from.

import { Suspense, useState } from "react";
import { createRoot } from "react-dom/client";
import { useAgent } from "agents/react";
import { useAgentChat } from "@cloudflare/ai-chat/react";

// Every name is a conversation of its own: /?name=bob is another one.
const name = new URLSearchParams(location.search).get("name") ?? "ann";

function Chat() {
  const agent = useAgent({ agent: "Chat", name, host: location.host });
  const { messages, sendMessage, stop, clearHistory, status, error } = useAgentChat({ agent });
  const [text, setText] = useState("");
  const isBusy = status === "submitted" || status === "streaming";

  function send(event) {
    event.preventDefault();
    sendMessage({ text });
    setText("");
  }

  return (
    <main>
      <h1>{name}</h1>
      <ol>
        {messages.map((message) => (
          <li key={message.id} data-role={message.role}>
            {message.parts.map((part) => (part.type === "text" ? part.text : null))}
          </li>
        ))}
      </ol>
      {error && <p className="error">{error.message}</p>}
      <form onSubmit={send}>
        <input value={text} onChange={(event) => setText(event.target.value)} placeholder="Ask for a story" autoFocus />
        <button type="submit" disabled={!text}>Send</button>
        <button type="button" disabled={!isBusy} onClick={() => stop()}>Stop</button>
        <button type="button" onClick={() => clearHistory()}>Clear</button>
      </form>
    </main>
  );
}

createRoot(document.getElementById("root")).render(
  <Suspense fallback={<p>…</p>}>
    <Chat />
  </Suspense>,
);
