"""Streamable HTTP: a channel whose every request is an HTTP request of its own."""
