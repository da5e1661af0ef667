"""Client under test by the official conformance suite: one function per scenario.

The suite starts `client.py URL` with the scenario in the environment. It also passes
the protocol version of its server; this client ignores that and negotiates. Exit code 0
means that the scenario succeeded. If a scenario provokes an error, the client must
raise that error: to ignore the fault is a failure, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import mcpwire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcpwire.types import Tool

URL = sys.argv[-1]
SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))

SKILLS = "io.modelcontextprotocol/skills"
REDIRECT_URI = "http://localhost:3000/callback"
CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json"

SCENARIO_FUNCTIONS: dict[str, Callable[[], Awaitable[None]]] = {}


def scenarios(*names: str) -> Callable[..., Any]:
    """Return a decorator that registers a function for scenarios."""

    def register(
        function: Callable[[], Awaitable[None]],
    ) -> Callable[[], Awaitable[None]]:
        SCENARIO_FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


class NotRaisedError(Exception):
    """An expected error was not raised."""


@asynccontextmanager
async def expect_error(error: type[Exception]) -> AsyncIterator[None]:
    """Require that the block raises the error, and print it to stderr."""
    try:
        yield
    except error as raised:
        print(f"as expected: {raised!r}", file=sys.stderr)
    else:
        raise NotRaisedError(error.__name__)


# --- calls ---------------------------------------------------------------------------


@scenarios("initialize")
async def connect() -> None:
    async with mcpwire.Client(URL):
        pass


@scenarios("tools_call")
async def add_numbers() -> None:
    async with mcpwire.Client(URL) as client:
        await client.list_tools()
        await client.call_tool("add_numbers", {"a": 5, "b": 3}, check=True)


@scenarios("sse-retry")
async def reconnect() -> None:
    async with mcpwire.Client(URL) as client:
        await client.call_tool("test_reconnection", check=True)


@scenarios("elicitation-sep1034-client-defaults")
async def accept_defaults() -> None:
    """Return an empty form: the client fills in the defaults."""
    async with mcpwire.Client(URL, elicitation=lambda _form: {}) as client:
        await client.call_tool("test_client_elicitation_defaults", check=True)


# --- 2026-07-28 ----------------------------------------------------------------------


@scenarios("request-metadata")
async def declare_everything() -> None:
    async with mcpwire.Client(
        URL, sampling=_unexpected_request, elicitation=_unexpected_request, roots=[]
    ) as client:
        await client.request("tools/list")  # served, though not declared
        await client.ping()


def _unexpected_request(_request: object) -> Any:
    raise AssertionError("nothing is asked in this scenario")


@scenarios("sep-2322-client-request-state")
async def answer_input_requests() -> None:
    async with mcpwire.Client(
        URL, elicitation=lambda _form: {"confirmed": True}
    ) as client:
        for tool in await client.list_tools():
            await client.call_tool(tool.name)


@scenarios("http-standard-headers")
async def use_all_features() -> None:
    async with mcpwire.Client(URL) as client:
        for tool in await client.list_tools():
            await client.call_tool(tool.name)
        for resource in await client.list_resources():
            await client.read_resource(resource.uri)
        for prompt in await client.list_prompts():
            await client.get_prompt(prompt.name)


@scenarios("http-custom-headers")
async def mirror_arguments() -> None:
    async with mcpwire.Client(URL) as client:
        await client.list_tools()
        for call in CONTEXT["toolCalls"]:
            await client.call_tool(call["name"], call["arguments"])


@scenarios("http-invalid-tool-headers")
async def call_all_tools() -> None:
    async with mcpwire.Client(URL) as client:
        for tool in await client.list_tools():
            await client.call_tool(tool.name, _stub_arguments(tool))


def _stub_arguments(tool: Tool) -> dict[str, Any]:
    stubs = {"string": "x", "number": 1.5, "integer": 1, "object": {}, "array": []}
    properties = tool.input_schema.get("properties", {})
    return {name: stubs.get(form.get("type")) for name, form in properties.items()}


@scenarios("json-schema-ref-no-deref")
async def list_only() -> None:
    async with mcpwire.Client(URL) as client:
        await client.list_tools()


@scenarios("json-schema-2020-12-preservation")
async def echo_schema() -> None:
    async with mcpwire.Client(URL) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        schema = tools["json_schema_2020_12_tool"].input_schema
        await client.call_tool("json_schema_echo", {"schema": schema}, check=True)


# --- skills --------------------------------------------------------------------------


@scenarios("sep-2640-client-no-prefetch")
async def list_skills() -> None:
    async with mcpwire.Client(URL, extensions=[SKILLS]) as client:
        await client.list_skills()


@scenarios(
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
)
async def load_invalid_skill() -> None:
    async with mcpwire.Client(URL, extensions=[SKILLS]) as client:
        (skill,) = await client.list_skills()
        async with expect_error(mcpwire.SkillError):
            await client.load_skill(skill)


# --- authorization -------------------------------------------------------------------


async def browse(url: str) -> str:
    """Act as the browser of a consenting user; return the redirect's URL."""
    import httpx

    async with httpx.AsyncClient() as browser:
        return (await browser.get(url)).headers["Location"]


def oauth(**options: Any) -> mcpwire.OAuth:
    """Return an OAuth authorization with `browse` as the browser."""
    return mcpwire.OAuth(
        redirect_uri=REDIRECT_URI,
        ask=browse,
        storage=mcpwire.MemoryStorage(),
        **options,
    )


async def call_with_auth(auth: object, *, calls: int = 1) -> None:
    """List the tools and call the first one, which requires a token."""
    target = mcpwire.Http(URL, auth=auth)
    async with mcpwire.Client(target) as client:
        tools = await client.list_tools()
        for _ in range(calls):
            await client.call_tool(tools[0].name)


@scenarios(
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/iss-supported",
    "auth/iss-not-advertised",
)
async def log_in() -> None:
    await call_with_auth(oauth())


@scenarios("auth/authorization-server-migration")
async def log_in_again_elsewhere() -> None:
    await call_with_auth(oauth(), calls=2)


@scenarios(
    "auth/resource-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
)
async def refuse_to_log_in() -> None:
    async with expect_error(mcpwire.AuthError):
        await call_with_auth(oauth())


@scenarios("auth/scope-retry-limit")
async def give_up() -> None:
    async with expect_error(mcpwire.InsufficientScope):
        await call_with_auth(oauth())


@scenarios("auth/basic-cimd")
async def log_in_by_document() -> None:
    await call_with_auth(oauth(client_metadata_url=CLIENT_METADATA_URL))


@scenarios("auth/pre-registration")
async def log_in_as_known_client() -> None:
    await call_with_auth(oauth(**_credentials("client_id", "client_secret")))


@scenarios("auth/dpop", "auth/dpop-nonce")
async def prove_possession() -> None:
    await call_with_auth(oauth(dpop=True))


@scenarios("auth/client-credentials-basic")
async def use_secret() -> None:
    credentials = _credentials("client_id", "client_secret")
    await call_with_auth(mcpwire.ClientCredentials(**credentials))


@scenarios("auth/client-credentials-jwt")
async def use_key() -> None:
    credentials = _credentials("client_id", "private_key_pem", "signing_algorithm")
    await call_with_auth(mcpwire.ClientCredentials(**credentials))


@scenarios("auth/wif-jwt-bearer")
async def use_workload_token() -> None:
    credentials = _credentials("client_id")
    await call_with_auth(
        mcpwire.WorkloadIdentity(assertion=CONTEXT["valid_jwt"], **credentials)
    )


@scenarios(
    "auth/enterprise-managed-authorization", "auth/cross-app-access-complete-flow"
)
async def use_enterprise_login() -> None:
    credentials = _credentials(
        "client_id",
        "client_secret",
        "idp_client_id",
        "idp_token_endpoint",
        "idp_issuer",
    )
    token = CONTEXT["idp_id_token"]
    await call_with_auth(mcpwire.EnterpriseManaged(id_token=token, **credentials))


def _credentials(*names: str) -> dict[str, Any]:
    """Return the suite's credentials; the suite does not name their issuer."""
    return {"issuer": "discovered"} | {name: CONTEXT[name] for name in names}


if __name__ == "__main__":
    if SCENARIO not in SCENARIO_FUNCTIONS:
        sys.exit(f"no such scenario: {SCENARIO!r}")
    asyncio.run(SCENARIO_FUNCTIONS[SCENARIO]())
    print(f"played {SCENARIO}")
