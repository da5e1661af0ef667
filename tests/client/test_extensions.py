"""Extensions are declared only if the client was constructed with them."""

import pytest
from fakes import FakeServer, text

import mcpwire

NAME = "com.example/paint"
DECLARED = "io.modelcontextprotocol/clientCapabilities"


async def declared(**options):
    seen = []

    def call(params, _):
        seen.append(params["_meta"][DECLARED])
        return {"resultType": "complete", **text("ok")}

    server = FakeServer({"tools/call": call}, version="2026-07-28")
    async with mcpwire.Client(server, **options) as client:
        await client.call_tool("x")
    return seen[0]


@pytest.mark.rule("EXT-01")
@pytest.mark.parametrize(
    ("given", "expected"),
    [([NAME], {NAME: {}}), ({NAME: {"layers": 3}}, {NAME: {"layers": 3}})],
)
async def test_an_extension_is_declared_in_each_request_by_its_name(given, expected):
    assert (await declared(extensions=given))["extensions"] == expected


def test_an_invalid_extension_name_is_refused_at_construction():
    with pytest.raises(ValueError, match=r"^extensions: .*'paint'"):
        mcpwire.Client("cat", extensions=["paint"])


OWN = {"com.example/undo": {"depth": 3}, "plain": {}}


async def test_experimental_is_declared_in_each_request():
    given = {**OWN, "plain": None}
    assert await declared(experimental=given) == {"experimental": OWN}
    assert await declared() == {}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25"])
async def test_a_session_gets_experimental_but_no_extensions(version):
    server = FakeServer({"tools/call": lambda *_: text("ok")}, version=version)
    options = {"experimental": OWN, "extensions": [NAME]}
    async with mcpwire.Client(server, **options) as client:
        assert (await client.call_tool("x")).text == "ok"
    (opened,) = server.requests("initialize")
    assert opened["capabilities"] == {"experimental": OWN}


async def test_experimental_is_declared_beside_handlers():
    seen = await declared(experimental=OWN, sampling=lambda _: "x")
    assert seen["experimental"] == OWN
    assert "sampling" in seen


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["undo"], r"^experimental must be a mapping from names to settings, got "),
        (
            {"undo": 3},
            r"^experimental: the settings of 'undo' must be a mapping, got 3",
        ),
    ],
)
def test_experimental_settings_must_be_a_mapping(given, message):
    with pytest.raises(ValueError, match=message):
        mcpwire.Client("cat", experimental=given)
