"""Measurement, statistics and reports of the benchmarks in the parent folder.

measure   measurement of one variant                (in the child interpreter)
blocking  measurement of a blocking variant         (in the child interpreter)
child     entry point of the child interpreter
rounds    interleaved rounds, pinned and unpinned   (in the parent)
programs  servers and gateways, by `mcpwire.bench`  (in the parent)
machine   description of the machine, without names or paths
figures   medians, ratios to the baseline, spread, budgets
report    result files and tables
command   the command line that all benchmarks share
"""
