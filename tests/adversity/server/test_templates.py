"""URIs that were written to make a matcher go back and forth for ever."""

import json
import time

import pytest
from ways import ask, opened

from mcpwire import Server

pytestmark = pytest.mark.anyio

MIB = 2**20

TEMPLATES = (
    *("a://{x}", "b://{+x}", "c://{x}/{y}/{z}", "d://{x}-{y}-{z}", "e://{/x*}"),
    *("f://x{/x*}", "g://{x}{y}", "h://x{?a,b}", "i://{+x}/{+y}", "j://{+x}{?a*}"),
    *("k://{x*}", "l://{x}.{y}.{z}.{w}", "m://{+x}a{+y}a{+z}b", "n://x{?list*}"),
)

ROOM = 32
"""How often the time of a harmless megabyte any other may take; what goes back and
forth, takes days."""


def server():
    """Return a server with those of the templates that it knows."""
    made = Server("templates")
    taken = []
    for template in TEMPLATES:
        names = [each for each in "xyzwab" if _names(template, each)]
        if "list" in template:
            names = ["list"]
        try:
            made.add_resource(template, _function(names))
        except (TypeError, ValueError):
            continue
        taken.append(template)
    return made, taken


def _names(template, name):
    inside = "".join(part.partition("}")[0] for part in template.split("{")[1:])
    return name in inside.replace("list", "")


def _function(names):
    scope = {}
    taken = ", ".join(f"{name}: str = ''" for name in names)
    exec(f"def read({taken}) -> str: return 'read'", scope)
    return scope["read"]


def attacks(template):
    """Return URIs of a megabyte that nearly fit."""
    scheme = template.partition("://")[0]
    for piece in (
        "a",
        "a/",
        "-",
        "a-",
        ".",
        "a.",
        "/",
        "%",
        "%4",
        "%41",
        "?a=",
        "&a=1",
    ):
        yield f"{scheme}://{piece * (MIB // len(piece))}"
        yield f"{scheme}://x?a={piece * (MIB // len(piece))}"
    yield f"{scheme}://{'a' * 100}{'/a' * (MIB // 2)}b"
    yield f"{scheme}://" + "é" * (MIB // 2)


async def seconds(way, uri):
    """Return the time of the processor that a request to read a resource takes."""
    message = json.dumps(ask(way, 1, "resources/read", {"uri": uri})).encode()
    began = time.process_time()
    answers = await way.say(message)
    taken = time.process_time() - began
    assert answers[0]["id"] == 1
    return taken


@pytest.mark.attack("S17")
async def test_no_uri_takes_long_to_be_matched_or_refused():
    made, taken = server()
    assert len(taken) >= 8
    way = await opened("memory, session", made)
    harmless = max(0.001, *[await seconds(way, "z://" + "a" * MIB) for _ in range(3)])
    slow = []
    for template in taken:
        for uri in attacks(template):
            for _ in range(8):  # others may take the caches from any one attempt
                if await seconds(way, uri) < ROOM * harmless:
                    break
            else:
                slow.append((template, uri[:20]))
    assert slow == []
