"""Notifications between arrival and consumer: what waits, and who wants what."""
