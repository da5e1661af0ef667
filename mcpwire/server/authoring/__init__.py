"""From Python functions to what the protocol says of them, and back."""
