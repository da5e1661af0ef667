"""Clients with faults in HTTP, sessions and event streams."""
