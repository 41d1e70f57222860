// The list of conversations as React state: live, with more pages on demand.

import { useCallback, useEffect, useReducer, useRef } from "react";
import { listConversations, watchConversations } from "./conversations.js";

const EMPTY = { known: new Map(), removed: null, cursor: null, isLoaded: false, isLive: true };
const key = ({ kind, name }) => `${kind}/${name}`;

function reduce(state, event) {
  if (event.type === "link") return { ...state, isLive: event.isLive };
  const known = new Map(event.type === "list" ? [] : state.known);
  if (event.type === "removed") known.delete(key(event));
  if (event.type === "changed") {
    const before = known.get(key(event.conversation));
    // The answer to a request may be older than what the stream has told since.
    if (!before || before.updatedAt <= event.conversation.updatedAt) known.set(key(event.conversation), event.conversation);
  }
  if (event.type === "removed") return { ...state, known, removed: event.name };
  if (event.type === "changed") return { ...state, known };
  for (const each of event.conversations) known.set(key(each), each);
  return { ...state, known, cursor: event.cursor, isLoaded: true };
}

export function useConversations() {
  const [state, dispatch] = useReducer(reduce, EMPTY);
  const latest = useRef(state);
  latest.current = state;

  const loadMore = useCallback(async (cursor) => {
    const page = await listConversations({ cursor });
    dispatch({ type: "more", ...page });
    return page;
  }, []);

  useEffect(
    () =>
      watchConversations(
        async (event) => {
          const before = latest.current.known.size;
          dispatch(event);
          if (event.type !== "list") return;
          // After a reconnect, the first page comes again: load as many pages as there were.
          let { cursor } = event;
          for (let count = event.conversations.length; cursor && count < before; ) {
            const page = await loadMore(cursor);
            cursor = page.cursor;
            count += page.conversations.length;
          }
        },
        (isLive) => dispatch({ type: "link", isLive }),
      ),
    [loadMore],
  );

  return {
    conversations: [...state.known.values()].sort((one, other) => other.updatedAt - one.updatedAt),
    removed: state.removed, // the name of the newest conversation that was deleted
    isLoaded: state.isLoaded,
    isLive: state.isLive,
    loadMore: state.cursor ? () => loadMore(state.cursor) : null,
    update: (conversation) => dispatch({ type: "changed", conversation }),
    remove: ({ kind, name }) => dispatch({ type: "removed", kind, name }),
  };
}
