"""Faults in ids, errors and what is no request."""

from mutants import mutant


@mutant("large ids lose their last digit", "RPC-07.b")
def large_ids(message, _):
    if isinstance(message.get("id"), int):
        message["id"] = int(float(message["id"]))
    return message


@mutant("an unknown method is invalid params", "RPC-31.a", "T11-02.a", "T11-03.a")
def unknown_method(message, _):
    error = message.get("error", {})
    if error.get("code") == -32601:
        error["code"] = -32602
    return message


@mutant("broken JSON is ignored", "B01.a", "A08.c", "A08.h")
def silent(message, _):
    return None if message.get("error", {}).get("code") == -32700 else message
