"""Authorization on asyncio: tokens, interactive login and stored credentials."""
