"""Types of official extensions, which stand in no revision's schema."""
