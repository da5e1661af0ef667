"""The scoreboard: servers of several languages, checked and measured alike.

::

    subjects   conformance/subjects/*.toml, one file for each server
    install    puts the pinned packages below .peers/subjects
    measure    runs the check over each transport; size and time to start
    site       writes data and pages
"""
