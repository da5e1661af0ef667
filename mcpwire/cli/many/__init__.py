"""What servers offer: one of them, or all that a configuration names."""
