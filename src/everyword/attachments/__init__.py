"""Attachments: the content of file parts, kept outside of the log. Stores for it, and checks of what is uploaded."""
