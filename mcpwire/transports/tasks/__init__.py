"""Tasks that begin at once."""
