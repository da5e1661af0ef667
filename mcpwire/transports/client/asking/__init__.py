"""How a client makes its requests, and makes them again."""
