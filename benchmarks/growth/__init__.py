"""Variants and axes of `bench_growth.py`: calls per session, number of sessions.

sessions  the variants, which open more sessions on request      (in the child)
scale     1,000 servers in a group, 1,000 sessions at a gateway  (in the child)
axes      the points of each axis, and their ratios              (in the parent)
"""
