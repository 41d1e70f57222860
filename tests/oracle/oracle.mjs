// Answers, line by line, what the AI SDK itself makes of chunk sequences and messages.
// A request is a JSON array of questions, the reply the JSON array of their answers, in order:
//   {"ask": "fold", "version": 6 | 7, "chunks": [...], "base"?: message}
//     -> {"message": ..., "error": null | {"name", "type", "id", "at"}}
//   {"ask": "accept", "version": 6 | 7, "chunks": [...]} -> [indices of the chunks its schema rejects]
//   {"ask": "repair", "version": 6 | 7, "text": "..."} -> {"value"?: ...}, no value when nothing is readable
//   {"ask": "convert", "version": 6 | 7, "messages": [...], "only_complete", "with_data", "with_tools"}
//     -> {"messages": [model messages]} | {"error": name}
//   {"ask": "prune", "version": 6 | 7, "messages": [model messages], "options": {...}} -> [model messages]
//   {"ask": "validate", "version": 6 | 7, "messages": ..., "schemas": [names]} -> {"messages": [...]} | {"error": text}
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

// What the tests' own tools and schemas do as well: see tests/oracle/model_messages.py.
const outputTools = {
  search: { toModelOutput: ({ toolCallId, input, output }) => ({ type: 'json', value: [toolCallId, input ?? null, output ?? null] }) },
};

function dataPart(part) {
  return part.type === 'data-note' ? { type: 'text', text: JSON.stringify(part.id ?? null) } : undefined;
}

async function convert(ai, { messages, only_complete, with_data, with_tools }) {
  try {
    const converted = await ai.convertToModelMessages(messages, {
      ignoreIncompleteToolCalls: only_complete,
      convertDataPart: with_data ? dataPart : undefined,
      tools: with_tools ? outputTools : undefined,
    });
    return { messages: converted };
  } catch (error) {
    return { error: error.name };
  }
}

async function prune(ai, { messages, options }) {
  return ai.pruneMessages({ messages, ...options });
}

function schema(ai, accepts) {
  const check = value => (accepts(value) ? { success: true, value } : { success: false, error: new Error('refused') });
  return ai.jsonSchema({}, { validate: check });
}

const isObject = value => value != null && typeof value === 'object' && !Array.isArray(value);

async function validate(ai, { messages, schemas }) {
  const options = { messages };
  if (schemas.includes('metadata')) options.metadataSchema = schema(ai, value => !isObject(value) || !('a' in value));
  if (schemas.includes('data')) options.dataSchemas = { note: schema(ai, value => typeof value !== 'string') };
  if (schemas.includes('tools')) {
    const input = schema(ai, value => isObject(value) && 'a' in value);
    options.tools = { search: { inputSchema: input, outputSchema: schema(ai, value => value != null) } };
    options.tools['get-weather'] = { inputSchema: schema(ai, isObject) };
  }
  const result = await ai.safeValidateUIMessages(options);
  return result.success ? { messages: result.data } : { error: result.error.message };
}

const asks = { fold, accept, repair, convert, prune, validate };

for await (const line of createInterface({ input: process.stdin })) {
  const answers = [];
  for (const question of JSON.parse(line)) answers.push(await asks[question.ask](sdk[question.version], question));
  process.stdout.write(JSON.stringify(answers) + '\n');
}
