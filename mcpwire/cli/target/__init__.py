"""What a command talks to: a server it starts, or one at a URL."""
