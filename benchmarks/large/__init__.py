"""Variants of `bench_large.py`: results of 1 KiB to 32 MiB, and long lists.

points           sizes of results, and their measurement  (everywhere, standard library)
floors           the least code for each transport        (in the child)
mcpwire_clients  mcpwire's clients                        (in the child)
sdk              the official Python SDK                  (in its environment)
"""
