"""Clients with faults in stateless requests, versions and input rounds."""
