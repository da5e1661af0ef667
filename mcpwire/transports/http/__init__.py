"""Streamable HTTP and HTTP+SSE on asyncio: HTTP engines, and channels over them."""
