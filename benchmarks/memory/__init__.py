"""A call within one process: the floor, and one client with its server by each library.

Each module is measured in its library's own environment; the argument of each variant
is the era, ``session`` or ``stateless``.
"""
