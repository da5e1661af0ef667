"""A server of another SDK elicits from a session client through the gateway."""

import pytest

import mcpwire
from mcpwire.gateway import Gateway

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]


async def test_an_elicitation_reaches_a_session_client(warm, connect):
    # FastMCP's `elicit` works in a session only, and its servers have both eras.
    gateway = Gateway({"up": connect.target(warm("fastmcp_interactive"))})
    answer = {"name": "Ada", "size": "small"}
    options = {"mode": "session", "elicitation": lambda _: answer}
    async with gateway, mcpwire.Client(gateway, **options) as client:
        result = await client.call_tool("up_order", check=True)
    assert result.text == "3 small for Ada"
    await connect.gone()
