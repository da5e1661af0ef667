"""What `bench_large.py` measures: results of a kibibyte to 32 MiB, and long lists.

points     the sizes, and what is measured at each      (everywhere, standard library)
floors     the least code for each way                  (in the child)
ours       mcpwire's clients                            (in the child)
sdk        the official Python SDK                      (in its environment)
"""
