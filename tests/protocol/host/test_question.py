"""What decoding, encoding and naming values share between the features."""

import pytest

from mcpwire.errors import InvalidMessage, InvalidParams, LocalProtocolError
from mcpwire.protocol.host.question import decode_params, encode_answer, excerpt
from mcpwire.types import ListRootsRequestParams, ListRootsResult, Root
from mcpwire.versions import LATEST


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        ("", "''"),
        ("a" * 40, repr("a" * 40)),
        ("a" * 41, repr("a" * 40 + "…")),
        ("\n", "'\\n'"),
        (None, "None"),
        (True, "True"),
        (1.5, "1.5"),
        (10**50, "a huge int"),
        ([1], "a value of type list"),
        (b"a", "a value of type bytes"),
    ],
)
def test_an_excerpt_is_short_whatever_the_value(value, text):
    assert excerpt(value) == text


def test_a_refused_question_names_path_and_cause():
    with pytest.raises(InvalidParams) as caught:
        decode_params(ListRootsRequestParams, {"_meta": []}, "roots/list")
    assert caught.value.message == (
        "ListRootsRequestParams._meta: expected object, got array"
    )
    assert caught.value.method == "roots/list"
    assert isinstance(caught.value.__cause__, InvalidMessage)


@pytest.mark.parametrize("roots", [None, [3], [Root(3)], [Root("a", meta="x")]])
def test_an_answer_is_read_as_the_server_will(roots):
    with pytest.raises(LocalProtocolError):
        encode_answer(ListRootsResult(roots), LATEST, "roots")
