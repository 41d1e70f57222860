"""Streams that the code of an agent writes itself: UI message streams and resumable streams."""
