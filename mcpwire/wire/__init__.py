"""Codecs between bytes and messages: JSON, JSON-RPC, line framing, SSE, headers, URLs.

These modules do no I/O, read no clock and no random numbers, and do not depend on any
MCP method.
"""
