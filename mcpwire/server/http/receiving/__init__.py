"""What comes in with one HTTP request: its head, and its body without a clock."""
