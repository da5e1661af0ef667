"""The server side: requests come in, handlers answer them.

`dispatcher` routes the requests of both eras to handlers of plain dicts; `connection`
is one client on a duplex stream, `stdio` serves one on stdin and stdout.
"""
