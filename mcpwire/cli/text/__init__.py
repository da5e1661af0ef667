"""How what a server sent is written for people; values in, lines out."""
