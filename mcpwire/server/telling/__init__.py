"""Telling clients that something changed: who hears of it, and by which request."""
