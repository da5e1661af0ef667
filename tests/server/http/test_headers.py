"""The header fields of a request."""

import pytest
from asgi_driver import Visit, scope

from mcpwire import Limits
from mcpwire.server.auth.resource_server import CREDENTIALS
from mcpwire.server.http.exchange import (
    Exchange,
    Headers,
    ShownFields,
)

pytestmark = pytest.mark.anyio

FIELDS = (("Host", "a"), ("Accept", "*/*"), ("Content-Type", "application/json"))


@pytest.fixture
def anyio_backend():
    return "asyncio"


def opened(*fields, **options):
    visit = Visit(scope(headers=fields, **options))
    return Exchange(visit.scope, visit.receive, visit.send, Limits())


# Fields...


def test_fields_that_each_came_once_are_read_one_by_one():
    headers = Headers([(b"x-one", b" 1\t"), (b"x-two", b"2")])
    assert not headers.repeats("x-one")
    assert headers.get("x-one") == "1"
    assert headers.get("x-three") is None
    assert headers.all("x-two") == ["2"]
    assert headers.all("x-three") == []
    assert headers == {"x-one": "1", "x-two": "2"}
    assert headers.get("x-two") == "2"
    assert not headers.repeats("x-one")


@pytest.mark.parametrize(
    "fields",
    [
        [(b"X-One", b"1")],
        [(b"x-one", b"1"), (b"x-one", b"1")],
        [(b"x-one", b"1"), (b"X-ONE", b"1")],
        [],
    ],
)
def test_fields_that_came_twice_or_in_capitals_are_found(fields):
    headers = Headers(fields)
    assert headers.repeats("x-one") == (len(fields) > 1)
    assert headers.get("x-one") == (", ".join(["1"] * len(fields)) or None)


def test_handlers_see_all_fields_but_those_that_prove_something():
    headers = Headers([(b"accept", b"*/*"), (b"authorization", b"Bearer abc")])
    shown = ShownFields(headers, CREDENTIALS)
    assert shown == {"accept": "*/*"}
    assert (len(shown), list(shown), shown["accept"]) == (1, ["accept"], "*/*")
    assert shown.get("authorization") is None
    assert repr(shown) == "{'accept': '*/*'}"


def test_what_nobody_has_asked_for_yet_shows_no_credentials():
    exchange = opened(*FIELDS, ("Authorization", "Bearer abc"))
    assert "authorization" not in exchange.info.headers
    assert exchange.info is exchange.info
