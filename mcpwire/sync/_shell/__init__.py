"""The blocking shell of a client, as far as it waits: written by hand."""
