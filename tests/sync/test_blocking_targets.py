"""What a blocking client can be pointed at, and what that opens."""

import pytest
from blocking_channels import Recorder, tool
from fakes import FakeServer, text
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.sync._memory import BlockingMemory
from mcpwire.sync._stdio import BlockingStdio
from mcpwire.sync._targets import blocking_opener
from mcpwire.transports.targets import opener


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (scripted(ECHO_LOOP), BlockingStdio),
        (FakeServer({"tools/call": lambda *_: text("")}), BlockingMemory),
    ],
)
def test_a_target_opens_one_connection_after_the_other(target, kind):
    opens = blocking_opener(target, DEFAULT_LIMITS)
    for _ in range(2):
        channel = opens.open(Recorder())
        assert type(channel) is kind
        assert tool(channel) == ""
        channel.close()


@pytest.mark.parametrize(
    "target",
    ["a 'b c'", mcpwire.Stdio("a", ["b"]), FakeServer()],
    ids=["text", "stdio", "server"],
)
def test_targets_read_as_on_asyncio(target):
    assert blocking_opener(target, DEFAULT_LIMITS).target == (
        opener(target, DEFAULT_LIMITS).target
    )


@pytest.mark.parametrize(
    "target", ["", "https://me:hush@x.example/mcp", "ftp://x.example/mcp", 5, None]
)
def test_what_is_no_target_is_refused_as_on_asyncio(target):
    with pytest.raises(ValueError, match=r"target|command|URL") as expected:
        opener(target, DEFAULT_LIMITS)
    with pytest.raises(ValueError, match=r"target|command|URL") as caught:
        blocking_opener(target, DEFAULT_LIMITS)
    assert str(caught.value) == str(expected.value)
