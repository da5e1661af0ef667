"""Clients with faults in authorization."""
