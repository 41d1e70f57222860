"""Encode messages as chunks, compact streams for replay, and decode streams that a reader joins late.

The server uses `encode` (message to chunks) and `compact` (many deltas to one). The other modules are for carriers of
your own, such as a pub/sub service whose messages change in place:

- `decoder`: turns deliveries of changing messages into start, delta and end events, also from the middle of a stream.
- `lifecycle`: adds the events that a late reader missed, such as the start of the message and of the step.
- `accumulator`: builds the messages from the decoded events of many interleaved streams.
- `aisdk`: configures decoder and lifecycle tracker for the chunks of the AI SDK, and writes chunks as deliveries.

A reader that joins after the first delta still gets a complete message:

>>> from everyword.codec.accumulator import MessageAccumulator
>>> from everyword.codec.aisdk import DeliveryWriter, aisdk_decoder
>>> from everyword.codec.decoder import decode_history
>>> writer = DeliveryWriter("turn-1", message_id="m1")
>>> chunks = [{"type": "start", "messageId": "m1"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}]
>>> chunks += [{"type": "text-delta", "id": "t", "delta": "Hel"}]
>>> for index, chunk in enumerate(chunks):
...     missed = writer.write(index, chunk)
>>> decoder, messages = aisdk_decoder(), MessageAccumulator()
>>> messages.take(decode_history(decoder, writer.history()))
>>> for delivery in writer.write(4, {"type": "text-delta", "id": "t", "delta": "lo"}):
...     messages.take(decoder.decode(delivery))
>>> messages.messages[0].text
'Hello'
"""
