"""Authorization on asyncio: obtain tokens, ask the user, keep credentials."""
