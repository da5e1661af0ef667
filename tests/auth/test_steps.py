"""The steps of an authorization: none of them shows what it carries."""

import attrs
import pytest
from driving import stored

from mcpwire.auth import steps
from mcpwire.auth.records import Identity, Pending, Tokens

RECORD = stored(
    tokens=Tokens("SENTINEL-1", refresh_token="SENTINEL-2"),
    identity=Identity("me", "SENTINEL-3", "https://as.example"),
    dpop_key={"d": "SENTINEL-4"},
)
PENDING = Pending(RECORD, "SENTINEL-5", "SENTINEL-6", "http://localhost/", 1.0)
ASK = steps.Ask("https://as.example/?state=SENTINEL", "SENTINEL", "http://a/", ("b",))

SHOWN = [
    (steps.Answer(400, {"x": "SENTINEL"}, b"SENTINEL"), "<Answer 400, 8 bytes>"),
    (
        steps.Fetch(
            "the token endpoint",
            "https://as.example/token?SENTINEL",
            form=(("code", "SENTINEL"),),
            headers=(("authorization", "SENTINEL"),),
        ),
        "<Fetch the token endpoint>",
    ),
    (steps.Fetch("it", "https://a.example", document={"a": "SENTINEL"}), "<Fetch it>"),
    (ASK, "<Ask for b>"),
    (attrs.evolve(ASK, scopes=()), "<Ask for no scopes>"),
    (steps.SavePending(PENDING), "<SavePending>"),
]


@pytest.mark.attack("S23")
@pytest.mark.parametrize(("step", "shown"), SHOWN, ids=[text for _, text in SHOWN])
def test_a_step_says_what_it_is_and_nothing_of_what_it_carries(step, shown):
    assert repr(step) == str(step) == shown


def test_every_step_is_exported():
    kinds = {kind.__name__ for kind in steps.Step.__subclasses__()}
    classes = {name for name, value in vars(steps).items() if attrs.has(value)}
    assert kinds == classes - {"Answer"}


@pytest.mark.parametrize(
    ("sent", "is_post"),
    [({}, False), ({"form": ()}, True), ({"document": {}}, True)],
)
def test_what_is_sent_beside_the_url_makes_a_post(sent, is_post):
    assert steps.Fetch("it", "https://a.example", **sent).is_post is is_post
