"""The rules of the protocol, pure: no I/O, no clock, no randomness, no waiting.

What takes one step is a function. What takes more is a generator that yields steps
(`mcpwire.protocol.multistep`) and is sent their outcomes; a shell, which is the code
that does the I/O, drives it.

Two eras are spoken: revisions up to 2025-11-25 have a session, which `initialize` opens
(the session era); from 2026-07-28 on each request stands alone (the stateless era).
"""
