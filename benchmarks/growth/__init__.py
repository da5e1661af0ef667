"""What `bench_growth.py` lets grow: sessions that get old, and sessions that get many.

sessions  the variants, each of which can be told to open more   (in the child)
axes      the points of each axis, and how a ratio is taken      (in the parent)
"""
