"""Everything at once: what `make bench` runs, says at its end and writes into a text.

parts     which scripts there are, with which words, and how each is run
headline  the table of the limits
curves    what the plots show of the results
tables    the figures that stand in a text between two marks
"""
