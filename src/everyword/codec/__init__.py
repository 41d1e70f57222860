"""Streams of chunks: joining late, replaying in few chunks, and turning messages back into chunks."""
