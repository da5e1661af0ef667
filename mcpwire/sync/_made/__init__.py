"""The blocking shell of a client, as far as it only awaits in the other: generated."""
