// Answers, line by line, what the AI SDK itself makes of chunk sequences.
// A request is a JSON array of questions, the reply the JSON array of their answers, in order:
//   {"ask": "fold", "version": 6 | 7, "chunks": [...], "base"?: message}
//     -> {"message": ..., "error": null | {"name", "type", "id", "at"}}
//   {"ask": "accept", "version": 6 | 7, "chunks": [...]} -> [indices of the chunks its schema rejects]
//   {"ask": "repair", "version": 6 | 7, "text": "..."} -> {"value"?: ...}, no value when nothing is readable
import { createInterface } from 'node:readline';
import * as ai6 from 'ai6';
import * as ai7 from 'ai7';

const sdk = { 6: ai6, 7: ai7 };

function streamOf(chunks) {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(structuredClone(chunk));
      controller.close();
    },
  });
}

function idAfter(chunks, base) {
  const starts = chunks.filter(chunk => chunk.type === 'start' && chunk.messageId != null);
  return starts.length > 0 ? starts.at(-1).messageId : (base?.id ?? '');
}

// Not every chunk publishes the message, so a start that changes nothing is read last.
async function read(ai, chunks, base) {
  let thrown = null;
  let message = null;
  const snapshots = ai.readUIMessageStream({
    message: base == null ? undefined : structuredClone(base),
    stream: streamOf([...chunks, { type: 'start', messageId: idAfter(chunks, base) }]),
    // An `error` chunk is reported here too, as a plain Error; it does not end the fold.
    onError: error => {
      if (error.name !== 'Error') thrown ??= error;
    },
  });
  for await (const snapshot of snapshots) message = snapshot;
  return { message, thrown };
}

async function fold(ai, { chunks, base }) {
  const whole = await read(ai, chunks, base);
  if (whole.thrown == null) return { message: whole.message, error: null };
  let [fits, fails] = [0, chunks.length];
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if ((await read(ai, chunks.slice(0, middle), base)).thrown == null) fits = middle;
    else fails = middle;
  }
  const { name, chunkType, chunkId } = whole.thrown;
  const { message } = await read(ai, chunks.slice(0, fits), base);
  return { message, error: { name, type: chunkType, id: chunkId, at: fits } };
}

async function accept(ai, { chunks }) {
  const schema = typeof ai.uiMessageChunkSchema === 'function' ? ai.uiMessageChunkSchema() : ai.uiMessageChunkSchema;
  const rejected = [];
  for (const [index, chunk] of chunks.entries()) {
    if (!(await schema.validate(chunk)).success) rejected.push(index);
  }
  return rejected;
}

async function repair(ai, { text }) {
  const { value } = await ai.parsePartialJson(text);
  return value === undefined ? {} : { value };
}

const asks = { fold, accept, repair };

for await (const line of createInterface({ input: process.stdin })) {
  const answers = [];
  for (const question of JSON.parse(line)) answers.push(await asks[question.ask](sdk[question.version], question));
  process.stdout.write(JSON.stringify(answers) + '\n');
}
