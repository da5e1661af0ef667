"""The blocking shell of authorization."""
