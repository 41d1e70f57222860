"""Messages of the AI SDK, the chunks that build them, and the one fold from chunks to messages."""
