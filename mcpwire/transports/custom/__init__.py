"""Connections that users bring: byte streams, messages, and whole channels."""
