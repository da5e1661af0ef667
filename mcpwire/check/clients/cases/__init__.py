"""Families of cases for clients."""
