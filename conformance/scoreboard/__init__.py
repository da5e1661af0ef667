"""The scoreboard: uniform checks and measurements of servers and clients.

::

    subjects   conformance/subjects/*.toml, one file for each server
    install    installs the pinned packages below .peers/subjects
    measure    runs the check over each transport, and measures start times
    site       writes data and pages
"""
