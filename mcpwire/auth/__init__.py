"""Authorization without I/O: OAuth 2.1 as MCP uses it, for clients and for resources.

An operation of several steps is a generator: it yields a step of `mcpwire.auth.steps`
and is sent the outcome. `mcpwire.transports.oauth` performs the steps. Nothing here
knows a clock, randomness, storage or a network::

    flow ──► discovery                 config, errors     imported by users
      ├────► registration              records            values, and their storage
      └────► tokens ──► jwt            steps              performed by a shell
    resource_server ──► jwt            url_policy         rules for named URLs
"""
