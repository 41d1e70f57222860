"""Transcripts: a conversation as a document for people, in Markdown, HTML and JSON. Pure."""
