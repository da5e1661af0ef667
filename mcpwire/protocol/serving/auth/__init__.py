"""What a request shows of who sent it."""
