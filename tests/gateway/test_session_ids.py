"""Encoding of what a session id holds: canonical, with an expiry time."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import LocalProtocolError
from mcpwire.gateway.session_ids import (
    ChosenServer,
    SessionData,
    decode_session,
    encode_session,
)

A = ChosenServer(
    url="https://a.example/", name="a", headers={"x": "1", "authorization": "t"}
)
B = ChosenServer(url="https://b.example/", name="b")

WHOLE = SessionData(
    nonce="n",
    revision="2025-11-25",
    only_server="a",
    client_info={"name": "c", "version": "1", "icons": [{"src": "x"}]},
    client_capabilities={"roots": {}, "elicitation": {"url": {}, "form": {}}},
    owner=("https://issuer.example", None, "me"),
    servers=(A, B),
    upstream_sessions={"b": "2", "a": "1"},
    expires_at=100,
)
LEAST = SessionData(nonce="n", revision="2024-11-05")


@pytest.mark.system("O20")
@pytest.mark.parametrize(
    "data", [WHOLE, LEAST, SessionData(nonce="", revision="x", servers=())]
)
def test_encoded_session_decodes_to_an_equal_one(data):
    assert decode_session(encode_session(data), 99.0) == data


@pytest.mark.system("O21")
def test_encoding_does_not_depend_on_member_order():
    reordered = SessionData(
        expires_at=100,
        upstream_sessions={"a": "1", "b": "2"},
        servers=(
            B,
            ChosenServer(
                url="https://a.example/",
                name="a",
                headers={"authorization": "t", "x": "1"},
            ),
        ),
        owner=("https://issuer.example", None, "me"),
        client_capabilities={"elicitation": {"form": {}, "url": {}}, "roots": {}},
        client_info={"version": "1", "icons": [{"src": "x"}], "name": "c"},
        revision="2025-11-25",
        only_server="a",
        nonce="n",
    )
    assert encode_session(reordered) == encode_session(WHOLE)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"v": 2}', b"nonsense"])
def test_text_in_another_format_is_not_decoded(text):
    assert decode_session(text, 0.0) is None


def test_deeply_nested_value_is_refused_without_a_stack_overflow():
    deep: object = {}
    for _ in range(900):
        deep = {"a": deep}
    with pytest.raises(LocalProtocolError, match="nested"):
        encode_session(
            SessionData(nonce="n", revision="r", client_capabilities={"a": deep})
        )


def test_repr_shows_no_server_url_and_no_headers():
    text = repr(WHOLE) + repr(A)
    assert "a.example" not in text
    assert "authorization" not in text


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), _json, max_size=4))
def test_encodable_client_capabilities_round_trip(capabilities):
    try:
        text = encode_session(
            SessionData(nonce="n", revision="r", client_capabilities=capabilities)
        )
    except LocalProtocolError:
        return
    data = decode_session(text, 0.0)
    assert data is not None
    assert json.dumps(data.client_capabilities, sort_keys=True) == json.dumps(
        capabilities, sort_keys=True
    )
