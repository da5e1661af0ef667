"""What is said to an authorization server, and what it answers."""
