"""Clients with faults in lists, calls and requests of the server."""
