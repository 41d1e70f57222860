"""Messages of the AI SDK, the chunks that build them, and the fold that builds a message from chunks.

Everything here is pure: no I/O, no clock, no tasks. Where to look:

- `message`, `chunks`, `part_schemas`: the data types and their schemas.
- `fold` (with `open_parts`, `metadata`, `partial_json`): chunks to message.
- `normaliser` (with `chunk_fields`, `tool_call_tracker`): an agent's raw output to chunks that every client accepts.
- `tool_calls`, `repair_tool_calls`: tool parts, their states and their answers.
- `client_messages`, `client_copies`, `server_fields`: messages that clients send.
- `validate_messages`, `model_messages`, `prune_messages`, `readable_parts`, `speaker_names`, `lazy_messages`: from
  stored messages to the input of a model.
- `sse`, `managed_stream`, `stream_closing`, `json_values`: streams and encoding.
"""
