"""What both engines over httpx share, and the connections of the asyncio one."""
