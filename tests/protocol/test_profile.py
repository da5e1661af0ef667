"""What an agreement means for every request that follows."""

import pytest

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.lifecycle import Identity
from mcpwire.protocol.negotiation import Agreement, Negotiation
from mcpwire.protocol.profile import Profile
from mcpwire.versions import REVISIONS, Era
from mcpwire.wire.json import encode, loads

IDENTITY = Identity({"name": "me", "version": "1"}, {"roots": {}})
META = "io.modelcontextprotocol/"


def profile(revision, capabilities):
    return Profile.of(
        Agreement(
            revision=revision,
            server_info=None,
            capabilities=capabilities,
            instructions=None,
            raw={},
            negotiation=Negotiation(),
        ),
        IDENTITY,
    )


def test_the_profile_of_no_connection_stamps_and_refuses_nothing():
    empty = Profile()
    assert (empty.era, empty.stamp, empty.stamp_fields) == (None, None, None)
    assert empty.refused == frozenset()


@pytest.mark.parametrize("revision", REVISIONS[:-1], ids=str)
def test_a_session_stamps_no_request(revision):
    assert profile(revision, {}).stamp is None
    assert profile(revision, {}).era is Era.SESSION


@pytest.mark.rule("META-06", "META-07")
def test_a_stateless_revision_stamps_each_with_version_capabilities_and_name():
    made = profile(REVISIONS[-1], {})
    assert made.era is Era.STATELESS
    assert made.stamp_fields == {
        META + "protocolVersion": "2026-07-28",
        META + "clientCapabilities": {"roots": {}},
        META + "clientInfo": {"name": "me", "version": "1"},
    }
    assert loads(encode({"_meta": made.stamp})) == {"_meta": made.stamp_fields}


@pytest.mark.rule("LIFE-11")
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_what_the_server_did_not_declare_is_refused_and_the_rest_is_not(revision):
    nothing, everything = (
        profile(revision, {}),
        profile(
            revision,
            {
                "tools": {},
                "prompts": {},
                "logging": {},
                "completions": {},
                "resources": {"subscribe": True},
                "tasks": {"list": {}, "cancel": {}},
            },
        ),
    )
    assert {"tools/list", "tools/call", "resources/read", "prompts/get"} <= (
        nothing.refused
    )
    assert not {"initialize", "server/discover", "ping"} & nothing.refused
    assert everything.refused == frozenset()
    error = nothing.refusal("tools/call")
    assert type(error) is LocalProtocolError
    assert "'tools'" in str(error)
