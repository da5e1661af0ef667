"""Attacks on a server over HTTP, and what they do to an honest client.

===============  ===========================================================
``wire``         requests as bytes, and connections that keep no manners
``honest``       the honest client: a process of its own
``scene``        one attack on one server: started, watched, ended
``framing``      what `initialize`, trailers and malformed requests cost
``silence``      connections that send nothing, or do not read
``pools``        what all clients share: sessions, listens, tasks, threads
``endings``      SIGTERM under load
``gateways``     processes behind a gateway
``outcome``      the verdict, and the table
``servers/``     the programs that are attacked
===============  ===========================================================
"""
