"""Streamable HTTP and HTTP+SSE on asyncio: engines that move bytes, and channels."""
