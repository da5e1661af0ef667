"""The HTTP server: an ASGI application without a framework.

`app` is the application, `exchange` one request and its response. `stateless` serves
requests without a session, `sessions` requests of a session; `uvicorn` runs the server.
"""
