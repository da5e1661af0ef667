"""The asyncio shell of a client: who owns its connection and makes its requests."""
