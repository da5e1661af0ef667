"""Clients with faults in JSON-RPC, framing, ping, progress and cancellation."""
