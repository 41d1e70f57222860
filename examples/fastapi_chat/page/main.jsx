// The stock hooks, unchanged. The server is the one that this page came from.

import { Suspense, useState } from "react";
import { createRoot } from "react-dom/client";
import { useAgent } from "agents/react";
import { useAgentChat } from "@cloudflare/ai-chat/react";

// Every name is a conversation of its own: /?name=bob is another one.
const name = new URLSearchParams(location.search).get("name") ?? "ann";

function Chat() {
  const [isAway, setIsAway] = useState(false);
  const agent = useAgent({
    agent: "Chat",
    name,
    host: location.host,
    onOpen: () => setIsAway(false),
    onClose: () => setIsAway(true),
  });
  const { messages, sendMessage, stop, clearHistory, status, isServerStreaming, error } = useAgentChat({ agent });
  const [text, setText] = useState("");
  const isBusy = status === "submitted" || status === "streaming" || isServerStreaming;

  function send(event) {
    event.preventDefault();
    if (!text.trim()) return;
    sendMessage({ text });
    setText("");
  }

  return (
    <main>
      <header>
        <h1>{name}</h1>
        <button type="button" disabled={!messages.length} onClick={() => clearHistory()}>Clear</button>
      </header>
      <section>
        <ol aria-live="polite">
          {messages.map((message) => (
            <li key={message.id} data-role={message.role}>
              {message.parts.map((part) => (part.type === "text" ? part.text : null))}
            </li>
          ))}
        </ol>
      </section>
      {isAway && <p role="status">The server is away. This page tries again by itself.</p>}
      {error && !isAway && <p role="alert">{error.message}</p>}
      <form onSubmit={send}>
        <input
          value={text}
          onChange={(event) => setText(event.target.value)}
          placeholder="Ask for a story"
          aria-label="Your message"
          autoComplete="off"
          autoFocus
        />
        {isBusy ? (
          <button type="button" onClick={() => stop()}>Stop</button>
        ) : (
          <button type="submit" disabled={!text.trim()}>Send</button>
        )}
      </form>
    </main>
  );
}

createRoot(document.getElementById("root")).render(
  <Suspense fallback={<p>…</p>}>
    <Chat />
  </Suspense>,
);
