"""Attacks on a server over HTTP, and their effect on an honest client.

===============  ===========================================================
``wire``         requests as bytes, and raw connections for irregular traffic
``honest``       the honest client, a process of its own
``scene``        one attack on one server: start, observation, end
``framing``      the cost of `initialize`, trailers and malformed requests
``silence``      connections that send nothing, or do not read
``pools``        resources that clients share: sessions, listens, tasks, threads
``endings``      SIGTERM under load
``gateways``     processes behind a gateway
``outcome``      the verdict and the tables
``servers/``     the servers under attack
===============  ===========================================================
"""
