// How turns ended, as the page knows it: from its socket, and from the log if it has one.

/** {endings: message id → ending, after: question id → ending of an answer without a word}. */
export function endingsOf(chat, log) {
  const { endings, after } = log?.endings() ?? { endings: new Map(), after: new Map() };
  const known = new Set([...(log?.turns.values() ?? [])].filter(({ outcome }) => outcome).map(({ request }) => request));
  for (const [request, ending] of chat.endings) {
    if (known.has(request)) continue;
    const message = chat.answers.get(request);
    if (message && ending.outcome !== "completed") endings.set(message, ending);
    else if (message) endings.delete(message);
  }
  return { endings, after };
}
