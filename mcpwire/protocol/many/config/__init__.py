"""What a configuration of servers may say, and what it means; pure."""
