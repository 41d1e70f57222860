// Turns the options that a test puts into the query string into the options of the two hooks.

import { note } from "./recorder.js";

let asked = 0;

export function socketOptions(given) {
  // Reconnecting soon is an option of the stock socket; its default of three seconds only makes tests slow.
  // Its default of four seconds for a handshake is too short for a busy machine: the socket is closed while it connects,
  // the browser writes a warning to the console, and the console is checked.
  const [soonest, latest] = given.reconnect ?? [40, 200];
  return {
    agent: given.agent ?? "Chat",
    name: given.name,
    sub: given.sub,
    ...(given.basePath === undefined ? {} : { basePath: given.basePath }),
    host: location.host,
    query: given.query,
    minReconnectionDelay: soonest,
    maxReconnectionDelay: latest,
    connectionTimeout: 60_000,
    onIdentity: (name, agent) => note("identity", { name, agent }),
    onMcpUpdate: (servers) => note("mcp", servers),
    onStateUpdateError: (text) => note("state error", text),
  };
}

export function chatOptions(given) {
  const options = {
    onData: (part) => note("data", part),
    onError: (error) => note("error", error.message),
    onFinish: ({ message, isAbort, isDisconnect, isError }) =>
      note("finish", { id: message?.id, isAbort, isDisconnect, isError }),
    onTurnEnd: (end) => note("turn end", end),
  };
  for (const name of ["resume", "throttle", "cancelOnClientAbort", "autoContinueAfterToolResult", "syncMessagesToServer"])
    if (name in given) options[name] = given[name];
  if ("body" in given) options.body = given.body;
  if ("bodyFunction" in given) options.body = () => ({ ...given.bodyFunction, asked: ++asked });
  if ("initial" in given) options.getInitialMessages = given.initial && (async () => given.initial);
  if ("tools" in given) options.tools = clientTools(given.tools);
  options.onToolCall = ({ toolCall, addToolOutput }) => {
    note("tool call", toolCall);
    const answer = given.answers?.[toolCall.toolName];
    if (answer !== undefined) addToolOutput({ toolCallId: toolCall.toolCallId, ...answer });
  };
  return options;
}

function clientTools(outputs) {
  const entries = Object.entries(outputs).map(([name, output]) => [
    name,
    {
      description: `Returns what the test laid down for ${name}.`,
      parameters: { type: "object", properties: { place: { type: "string" } } },
      execute: async (input) => {
        note("execute", { name, input });
        return output;
      },
    },
  ]);
  return Object.fromEntries(entries);
}
