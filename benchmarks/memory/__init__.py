"""Calls within one process: the floor, and client with server of each library.

Each module runs in its library's environment; the argument of a variant is the era,
``session`` or ``stateless``.
"""
