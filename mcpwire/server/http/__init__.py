"""The server over HTTP: an ASGI application without a framework.

`app` is the application and `exchange` one request in it. A request that stands alone
is answered in `stateless`; what belongs to a session goes to ``sessions``.
"""
