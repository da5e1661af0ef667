"""OAuth 2.1 for MCP without I/O, for clients and for protected resources.

An operation of several steps is a generator: it yields a step of `mcpwire.auth.steps`
and receives its outcome by ``send``. `mcpwire.transports.oauth` performs the steps.
This package uses no clock, randomness, storage or network itself::

    flow ──► discovery                 config, errors     imported by users
      ├────► registration              records            values, and their storage
      └────► tokens ──► jwt            steps              performed by a shell
    resource_server ──► jwt            url_policy         rules for named URLs
"""
