"""What a handler asks its client, and what it tells it: the same in both eras."""
