"""Runs the official conformance suite against `client.py`, and judges more strictly."""
