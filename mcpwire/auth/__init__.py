"""Authorization, pure: OAuth 2.1 as MCP uses it, one RFC per module.

`serving` is what a protected resource decides; all else is a client's.
Nothing here reads a clock, draws random bytes, stores or sends. What takes several
steps is a generator that yields a step of `mcpwire.auth.steps` and is sent its outcome;
`mcpwire.transports.oauth` performs the steps on asyncio.
"""
