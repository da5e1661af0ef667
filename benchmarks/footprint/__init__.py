"""The measurements of `bench_footprint.py`.

programs  the smallest program of each client            (in its own environment)
install   bytes and number of installed distributions
memory    memory of sessions and of calls in flight      (in its own environment)
kernel    system calls for memory, counted by strace
starts    start times of fresh interpreters
"""
