"""The servers that are measured. Each answers the same requests with the same frames, in a process of its own."""
