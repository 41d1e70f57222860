// The page under test: the stock hooks, unmodified, used as in a user's page.
// The list is in the document but not laid out: otherwise megabytes of text would be laid out at every chunk.
// Options come as JSON in the query string; tests use `window.chat` and `window.seen`.

import { Component, Suspense, startTransition, useLayoutEffect } from "react";
import { createRoot } from "react-dom/client";
import { useAgent, useAgentToolEvents } from "agents/react";
import { useAgentChat } from "@cloudflare/ai-chat/react";
import { chatOptions, socketOptions } from "./hook-options.js";
import { look, note } from "./recorder.js";
import { Versions, useVersions } from "./version-picker.jsx";

const given = JSON.parse(new URLSearchParams(location.search).get("options") ?? "{}");
const forSocket = socketOptions(given);
const forChat = chatOptions(given);

function Chat() {
  const agent = useAgent(forSocket);
  const chat = useAgentChat({ agent, ...forChat });
  const runs = useAgentToolEvents({ agent });
  useLayoutEffect(() => {
    window.chat = chat;
    window.agent = agent;
    window.runs = runs;
    look(chat);
  });
  return (
    <main data-status={chat.status} data-error={chat.error?.message}>
      <ol hidden>
        {chat.messages.map((message) => (
          <Message key={message.id} message={message} />
        ))}
      </ol>
      {given.versions && <Places agent={agent} chat={chat} />}
    </main>
  );
}

function Places({ agent, chat }) {
  const places = useVersions(agent, chat);
  return places.map((place) => <Versions key={place.versions[0]} agent={agent} place={place} />);
}

function Message({ message }) {
  return (
    <li data-id={message.id} data-role={message.role}>
      {message.parts.map((part, place) => (
        <span key={place} data-type={part.type} data-state={part.state}>
          {part.type === "text" ? part.text : JSON.stringify(part)}
        </span>
      ))}
    </li>
  );
}

class Boundary extends Component {
  state = { failed: null };

  static getDerivedStateFromError(failed) {
    return { failed };
  }

  componentDidCatch(failed) {
    note("boundary", String(failed));
  }

  render() {
    return this.state.failed ? <p data-failed>{String(this.state.failed)}</p> : this.props.children;
  }
}

// While history is fetched the hook suspends. With a fallback React waits 300 ms before it shows more; without one, a
// transition waits for the fetch alone. Both are ways in which pages use the hook.
const chat = given.suspense ? <Suspense fallback={<p data-loading />} children={<Chat />} /> : <Chat />;
const root = createRoot(document.getElementById("root"));
startTransition(() => root.render(<Boundary>{chat}</Boundary>));
