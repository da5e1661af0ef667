"""Faults in what HTTP adds: status, headers, sessions, streams."""

from mutants import Mutant, register


def invalid_params(held):
    held["body"] = held["body"].replace(b"-32601", b"-32602")


register(
    Mutant(
        "an unknown method is invalid params, over HTTP",
        ("RPC-31.a",),
        transport="http",
        response=invalid_params,
    )
)
