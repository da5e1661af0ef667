"""Gateways made from configurations, and reloading while they serve."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from mcpwire.errors import ConfigError, UnknownServer
from mcpwire.gateway import FromHeaders, Gateway, Static
from mcpwire.gateway.gateway import WatchedFiles
from mcpwire.gateway.serving import file_states, watch


def write(path: Path, **servers: Any) -> str:
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


A = {"url": "https://a.example/mcp"}
B = {"url": "https://b.example/mcp"}


def names(gateway: Gateway) -> list[str]:
    source = gateway.source
    assert isinstance(source, Static)
    return [each.name for each in source.plan().servers]


async def test_gateway_is_made_from_configuration_files(tmp_path):
    first = write(tmp_path / "first.json", a=A, b={**B, "disabled": True})
    second = write(tmp_path / "second.json", c=A)
    assert names(Gateway.from_config(first)) == ["a"]
    gateway = Gateway.from_config(first, layers=[second], name="mine")
    assert names(gateway) == ["a", "c"]
    assert gateway.info.name == "mine"
    assert gateway.watched is not None
    assert list(gateway.watched.files) == [first, second]
    assert list(gateway.watched.load()) == ["a", "c"]
    assert names(Gateway.from_config(first, only=["a"])) == ["a"]
    in_memory = Gateway.from_config({"mcpServers": {"a": A}})
    assert (names(in_memory), in_memory.watched) == (["a"], None)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Gateway.from_config({"mcpServers": {"a": {}}}), ConfigError),
        (lambda: Gateway.from_config({"mcpServers": {}}, only=["x"]), UnknownServer),
        (
            lambda: Gateway.from_config(
                {"mcpServers": {"a": A}}, deny_urls=["a.example"]
            ),
            ConfigError,
        ),
        (lambda: Gateway.from_config({"mcpServers": {}}, timeout=0), ValueError),
    ],
)
def test_invalid_configuration_raises_in_from_config(make, error):
    with pytest.raises(error):
        make()


async def test_reload_applies_a_valid_configuration_and_rejects_an_invalid_one():
    gateway = Gateway.from_config({"mcpServers": {"a": A}})
    changes = await gateway.reload({"mcpServers": {"a": A, "b": B}})
    assert (changes.added, names(gateway)) == (("b",), ["a", "b"])
    with pytest.raises(ConfigError):
        await gateway.reload({"mcpServers": {"a": {}}})
    assert names(gateway) == ["a", "b"]
    denying = Gateway({}, deny_urls=["a.example"])
    with pytest.raises(ConfigError):
        await denying.reload({"mcpServers": {"a": A}})
    choosing = Gateway(FromHeaders())
    with pytest.raises(TypeError):
        await choosing.reload({"mcpServers": {"a": A}})


def test_file_states_differ_after_each_kind_of_change(tmp_path):
    path = tmp_path / "mcp.json"
    other = tmp_path / "other"
    other.write_text("22")
    changes = (
        lambda: path.write_text("1"),
        lambda: path.write_text("22"),
        lambda: other.replace(path),
        path.unlink,
    )
    before = file_states([path])
    for change in changes:
        assert file_states([path]) == before
        change()
        assert file_states([path]) != before
        before = file_states([path])


async def test_watch_reloads_a_valid_change_and_reports_an_invalid_one(tmp_path):
    path = tmp_path / "mcp.json"
    gateway = Gateway.from_config(write(path, a=A))
    reports: asyncio.Queue[str] = asyncio.Queue()
    watched = gateway.watched
    assert watched is not None
    watching = asyncio.ensure_future(
        watch(gateway, watched, interval=0.005, report=reports.put_nowait)
    )
    await asyncio.sleep(0)  # it records the state of the files
    write(path, a=A, b=B)
    assert await reports.get() == "reloaded: added b"
    path.write_text("{")
    assert (await reports.get()).startswith("nothing is reloaded: ")
    assert names(gateway) == ["a", "b"]
    write(path, b={**B, "timeout": 5})
    assert await reports.get() == "reloaded: removed a; changed b"
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def test_watch_reports_nothing_if_the_servers_are_unchanged(tmp_path):
    path = tmp_path / "mcp.json"
    write(path, a=A)
    gateway = Gateway({"a": A["url"]})
    reports: list[str] = []
    read = asyncio.Event()

    def load() -> dict[str, Any]:
        read.set()
        return {"a": A["url"]}

    watching = asyncio.ensure_future(
        watch(
            gateway,
            WatchedFiles([str(path)], load),
            interval=0.005,
            report=reports.append,
        )
    )
    await asyncio.sleep(0)  # as above
    path.write_text("{ }")
    await read.wait()
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    assert reports == []


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"watch": True}, ValueError, "made of files"),
        ({"path": "/mcp"}, TypeError, "stdio has no option 'path'"),
    ],
)
def test_run_refuses_options_that_do_not_apply(options, error, says):
    with pytest.raises(error, match=says):
        Gateway({}).run(**options)
