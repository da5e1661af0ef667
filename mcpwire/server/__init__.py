"""The server side: handlers that answer the requests of clients.

`dispatcher` routes the requests of both eras to handlers of plain dicts; `connection`
serves one client on a duplex stream, `stdio` one client on stdin and stdout.
"""
