"""The rules of Streamable HTTP and of HTTP+SSE: what goes out, and what comes of it."""
