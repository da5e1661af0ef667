"""Credentials of a request, and their absence from handlers."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcpwire
from mcpwire.server.auth import ApiKeys, ResourceServer
from mcpwire.server.auth.resource_server import (
    Credentials,
    MalformedCredentials,
    read_credentials,
)
from mcpwire.testing import AsgiTransport

SECRET = "hush-hush"


@pytest.mark.case("G13")
def test_credentials_and_their_errors_show_no_token():
    assert SECRET not in repr(Credentials("bearer", SECRET))
    with pytest.raises(MalformedCredentials) as caught:
        read_credentials([f"Bearer {SECRET} {SECRET}"])
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], None),
        (["Basic YTpi"], None),
        (["Negotiate"], None),
        (["Bearer a.b-c_d~e+f/g=="], Credentials("bearer", "a.b-c_d~e+f/g==")),
        (["  dPoP   t\t"], Credentials("dpop", "t")),
    ],
)
def test_credentials_are_parsed_per_rfc_6750(values, found):
    assert read_credentials(values) == found


@given(st.text(st.characters(max_codepoint=255), max_size=50))
def test_parsed_credentials_hold_only_token_characters(value):
    try:
        found = read_credentials([value])
    except MalformedCredentials:
        return
    if found is not None:
        assert found.token in value
        assert found.token.isascii()
        assert not set(found.token) & set(' ,;"\\\t\r\n')


@pytest.mark.rule("FLOW-24", "SEC-03")
@pytest.mark.attack("S08")
@pytest.mark.case("G01")
async def test_credential_headers_are_hidden_from_handlers():
    auth = ResourceServer(
        "https://t/mcp", verifiers=[ApiKeys({SECRET: "ann"}, header="X-API-Key")]
    )
    server = mcpwire.Server("guarded", auth=auth)

    @server.tool
    def fields(ctx: mcpwire.Context) -> dict[str, str]:
        return dict(ctx.headers)

    secrets = dict.fromkeys(
        ["x-api-key", "cookie", "dpop", "proxy-authorization"], SECRET
    )
    async with httpx.AsyncClient(transport=AsgiTransport(server.asgi())) as http:
        target = mcpwire.Http("https://t/mcp", headers=secrets, http_client=http)
        async with mcpwire.Client(target) as client:
            visible = (await client.call_tool("fields")).structured_content
    assert "user-agent" in visible
    assert not secrets.keys() & visible.keys()
    assert SECRET not in str(visible)
