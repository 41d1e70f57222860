// The peer's agent for the benchmarks: streams what the request's `bench` asks for, like every other server here.
import { AIChatAgent } from "@cloudflare/ai-chat";
import { routeAgentRequest } from "agents";

const WORDS = " some words of an answer ";

// Dates are coarse here: a whole millisecond, and only as new as the last event. Fair enough for medians.
const stamp = () => `@${Date.now()}000${WORDS}`;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const turnOfTheLoop = () => new Promise((resolve) => setImmediate(resolve));

// Plain text, the peer's quickest path; one chunk per pull, straight from a counter.
function textStream({ chunks = 3, rate = 0, yields = false, holds = false }, signal) {
  const encoder = new TextEncoder();
  const began = Date.now();
  let index = 0;

  const emit = (controller) => {
    controller.enqueue(encoder.encode(stamp()));
    index++;
  };
  const body = new ReadableStream({
    pull(controller) {
      if (index < chunks && !signal?.aborted) {
        if (!rate && !yields) return emit(controller);
        const early = rate ? began + (index * 1000) / rate - Date.now() : 0;
        return (rate ? pause(early) : turnOfTheLoop()).then(() => emit(controller));
      }
      if (!holds || signal?.aborted) return controller.close();
      return new Promise((resolve) => signal.addEventListener("abort", resolve)).then(() => controller.close());
    },
  });
  return new Response(body, { headers: { "content-type": "text/plain" } });
}

export class Chat extends AIChatAgent {
  async onChatMessage(_onFinish, options) {
    return textStream(options?.body?.bench ?? {}, options?.abortSignal);
  }

  async onRequest(request) {
    const url = new URL(request.url);
    if (!url.pathname.endsWith("/fill")) return super.onRequest(request);
    const count = Number(url.searchParams.get("messages"));
    const text = "A sentence of some length, as people write them. ".repeat(4);
    const messages = Array.from({ length: count }, (_, index) => ({
      id: `m${index}`,
      role: index % 2 ? "assistant" : "user",
      parts: [{ type: "text", text }],
    }));
    await this.persistMessages(messages);
    return new Response(String(count));
  }
}

export default {
  async fetch(request, env) {
    return (await routeAgentRequest(request, env)) ?? new Response("not found", { status: 404 });
  },
};
