"""Full runs of the benchmarks by `make bench`: execution, summary, tables in texts.

parts      the scripts with their arguments, and their execution
headline   the table of the limits
plot_data  the data of the plots
tables     the tables between two markers in a text
"""
