"""Attacks on a server over HTTP, and their effect on an honest client.

====================  ======================================================
``wire``              requests as bytes, and raw connections for irregular traffic
``honest``            the honest client, a process of its own
``runner``            one attack on one server: start, observation, end
``framing``           the cost of `initialize`, trailers and malformed requests
``slow_connections``  connections that send nothing, or do not read
``pools``             shared resources: sessions, listens, tasks, threads
``shutdown``          SIGTERM under load
``gateways``          processes behind a gateway
``report``            the verdict and the tables
``servers/``          the servers under attack
====================  ======================================================
"""
