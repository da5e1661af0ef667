"""Checks that every message POSTed to a test server matches its revision's schema.

`watch` looks at the requests of every `RawServer`. Unlike a stream's, an HTTP message
says itself which revision it is of; what it answers, and whether its id is fresh, is
not looked at: many clients may talk to one server. What is no JSON-RPC at all is the
matter of tests that have no client.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
import raw_server
import spec_files
import wirecheck


class Check(wirecheck.WireCheck):
    """The check of a single message."""

    def look_at(self, request: raw_server.RawRequest) -> Iterator[str]:
        """Yield what is wrong with the message of a POST."""
        named = request.headers.get("mcp-protocol-version")
        revision = named if named in wirecheck.REVISIONS else None
        message = request.json
        if "method" in message:
            line = wirecheck._Line()
            yield from self._look_at(line, "client", revision, message)
            return
        schema = self._schemas[revision or wirecheck.LATEST_SESSION]
        name = schema.error if "error" in message else schema.answer
        yield from schema.problems(name, message)


def is_message(request: raw_server.RawRequest) -> bool:
    """Tell whether a request contains a JSON-RPC message."""
    if request.verb != "POST":
        return False
    try:
        message = request.json
    except ValueError:
        return False
    return isinstance(message, dict) and "jsonrpc" in message


@contextlib.contextmanager
def watch() -> Iterator[list[str]]:
    """Collect the schema errors of the messages POSTed meanwhile."""
    schemas = wirecheck.load(spec_files.demand(os.environ))
    found: list[str] = []

    def look(server: Any, request: raw_server.RawRequest) -> None:
        if is_message(request):
            wrong = Check(schemas).look_at(request)
            text = request.body[: wirecheck.EXCERPT].decode("utf-8", "replace")
            found.extend(f"{what}: {text}" for what in wrong)

    raw_server.OBSERVERS.append(look)
    try:
        yield found
    finally:
        raw_server.OBSERVERS.remove(look)


@pytest.fixture(autouse=True)
def posted_messages_are_checked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test if our client posts a message that its revision's schema rejects."""
    is_unchecked = request.node.get_closest_marker("unchecked_wire") is not None
    if is_unchecked or spec_files.find(os.environ) is None:
        yield
        return
    with watch() as found:
        yield
    if found:
        pytest.fail(
            "our client posted what the schema refuses:\n" + "\n".join(found),
            pytrace=False,
        )
