"""Measure what a server or a client costs, and under which load it breaks."""
