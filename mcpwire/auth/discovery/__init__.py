"""Finding out who gives tokens for a server, and which to ask for."""
