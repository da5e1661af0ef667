"""The server over HTTP: an ASGI application without a framework.

`app` is the application, `exchange` one request in it. `stateless` answers requests
that stand alone, `sessions` those of a session; `uvicorn` runs it.
"""
