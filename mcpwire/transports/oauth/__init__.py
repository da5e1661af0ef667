"""The shell of authorization: fetching, storing, and asking the user, on asyncio.

What is the same in the blocking shell stands in modules that load no loop.
"""
