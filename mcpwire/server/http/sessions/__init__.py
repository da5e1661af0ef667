"""Sessions over HTTP (2025-03-26 to 2025-11-25), and HTTP+SSE of 2024-11-05.

`table` knows the sessions and is what the application calls; `session` is one of them,
`answers` one POST to it, `streams` what its event streams carry, `outlets` one HTTP
response that carries a stream for a while. `events` and `sqlite_events` keep what was
sent, so that a stream can be gone on with.
"""
