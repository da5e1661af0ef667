"""The rules of the protocol without I/O, clocks, random numbers and waiting (sans-I/O).

An operation of one step is a function. An operation of several steps is a generator: it
yields steps (`mcpwire.protocol.multistep`) and receives their outcomes by `send`. Its
driver, called the shell, does the I/O.

The protocol has two eras: revisions up to 2025-11-25 have sessions, which `initialize`
opens (the session era); since 2026-07-28 requests are independent (the stateless era).
"""
