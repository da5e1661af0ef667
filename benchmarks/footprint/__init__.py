"""What `bench_footprint.py` weighs and how.

programs  the smallest program of each client            (in its own environment)
install   bytes and distributions, from what is installed
weighing  sessions and calls in flight, by their memory  (in its own environment)
kernel    system calls that ask for memory, by strace
starts    how long fresh interpreters take
"""
