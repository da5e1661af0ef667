"""How the benchmarks measure, reckon and report; the questions stand one folder up.

measure   what is taken from one variant            (in the child interpreter)
blocking  the same of a variant that blocks         (in the child interpreter)
child     the child interpreter's entry
rounds    interleaved rounds, pinned and unpinned   (in the parent)
programs  servers and gateways, by `mcpwire.bench`  (in the parent)
machine   the machine described, without names or paths
figures   medians, ratios to the baseline, spread, budgets
report    result files and tables
command   the command line that every question shares
"""
