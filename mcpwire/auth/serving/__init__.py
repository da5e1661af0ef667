"""What a protected resource decides: whom tokens are for, what they say, who has them.

Pure, like all of `mcpwire.auth`: the time comes in, and what is fetched comes in.
"""
