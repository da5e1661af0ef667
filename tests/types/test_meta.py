"""`_meta`: its typed forms."""

from __future__ import annotations

import pytest

import mcpwire.types._base as meta
from mcpwire import types
from mcpwire.errors import InvalidMessage
from mcpwire.types import decode, encode
from mcpwire.types._base import is_meta_key

REQUEST = {
    meta.PROTOCOL_VERSION: "2026-07-28",
    meta.CLIENT_CAPABILITIES: {"elicitation": {}},
    meta.CLIENT_INFO: {"name": "a", "version": "1"},
    meta.LOG_LEVEL: "info",
    "progressToken": 0,
    "com.example/more": [1],
}


@pytest.mark.rule("META-06")
def test_a_request_s_meta_has_a_typed_form():
    typed = decode(types.RequestMetaObject, REQUEST)
    assert typed.protocol_version == "2026-07-28"
    assert typed.client_capabilities.elicitation == types.ElicitationCapability()
    assert typed.client_info == types.Implementation("a", "1")
    assert typed.progress_token == 0
    assert typed.extra == {"com.example/more": [1]}
    assert encode(typed) == REQUEST


@pytest.mark.rule("META-08")
@pytest.mark.parametrize("key", [meta.PROTOCOL_VERSION, meta.CLIENT_CAPABILITIES])
def test_a_request_s_meta_without_a_required_key_is_refused(key):
    value = {name: each for name, each in REQUEST.items() if name != key}
    with pytest.raises(InvalidMessage) as caught:
        decode(types.RequestMetaObject, value)
    assert caught.value.path == f'RequestMetaObject["{key}"]'
    assert caught.value.got == "nothing"


@pytest.mark.rule("META-07")
def test_a_client_need_not_say_its_name():
    value = {name: REQUEST[name] for name in list(REQUEST)[:2]}
    assert decode(types.RequestMetaObject, value).client_info is None


@pytest.mark.rule("LOG-04")
def test_an_unknown_level_of_a_request_is_refused():
    with pytest.raises(InvalidMessage) as caught:
        decode(types.RequestMetaObject, REQUEST | {meta.LOG_LEVEL: "whisper"})
    assert caught.value.got == "'whisper'"


@pytest.mark.rule("META-11")
def test_a_server_s_name_is_in_the_meta_of_its_results():
    value = {"content": [], "_meta": {meta.SERVER_INFO: {"name": "s", "version": "1"}}}
    result = decode(types.CallToolResult, value)
    typed = decode(types.ResultMetaObject, result.meta)
    assert typed.server_info == types.Implementation("s", "1")


@pytest.mark.rule("SUB-06")
@pytest.mark.parametrize("subscription", [5, "5", 0, ""])
def test_a_subscription_is_named_by_the_id_of_its_request(subscription):
    value = {meta.SUBSCRIPTION_ID: subscription}
    for cls in (
        types.NotificationMetaObject,
        types.SubscriptionsListenResultMetaObject,
    ):
        typed = decode(cls, value)
        assert typed.subscription_id == subscription
        assert type(typed.subscription_id) is type(subscription)
        assert encode(typed) == value


@pytest.mark.rule("META-03")
def test_the_keys_of_the_protocol_are_spelled_right_and_reserved():
    keys = [
        *(meta.PROTOCOL_VERSION, meta.CLIENT_CAPABILITIES, meta.CLIENT_INFO),
        *(meta.LOG_LEVEL, meta.SERVER_INFO, meta.SUBSCRIPTION_ID, meta.RELATED_TASK),
    ]
    assert all(is_meta_key(key) for key in (*keys, *meta.TRACE_KEYS))
    assert all(key.startswith("io.modelcontextprotocol/") for key in keys)
