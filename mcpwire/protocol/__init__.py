"""The rules of the protocol, pure: no I/O, no clock, no randomness, no waiting.

What takes one step is a function. What takes more is a generator that yields steps
(`mcpwire.protocol.multistep`) and is sent their outcomes; each shell drives it.
"""
