"""Measurement, statistics and reports of the benchmarks in the parent folder.

rounds    interleaved rounds of clients, by `mcpwire.bench.measure_code`
programs  servers and gateways, by `mcpwire.bench.run`
placement cores of a client and its server
servers   servers of other environments, and their processes
machine   description of the machine, without names or paths
figures   medians, ratios to the baseline, spread, budgets
report    result files and tables
command   the command line that all benchmarks share
"""
