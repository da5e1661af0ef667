"""Many servers at once: names, configuration, merged lists; pure."""
