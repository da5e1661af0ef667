"""Bytes to messages and back: JSON, JSON-RPC, line framing, SSE, headers, URLs.

Nothing in here reads a socket, a clock or a random number, and nothing knows a method
of the protocol.
"""
