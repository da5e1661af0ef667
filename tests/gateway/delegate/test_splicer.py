"""Delegates through the gateway: when they are called, and the spliced results."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcpwire import Client, Context, RPCError, Server, ToolError
from mcpwire.gateway import Gateway, PendingBatch, Splicer, token_of
from mcpwire.gateway.splicing import closing, opening

TOKEN = "0f9d3c1e-5a6b-4c7d-8e9f-0123456789ab"
NOTIFICATIONS = "org.pypi.pymcpwire/notifications"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


server = Server("behind")


@server.tool
async def echo(words: str) -> str:
    return words


@server.tool
async def fail() -> str:
    raise ToolError("no")


@server.tool
async def refuse() -> str:
    raise RPCError("upstream error", code=7)


@server.tool
async def linger(ctx: Context) -> str:
    ctx.progress(1)
    await asyncio.Event().wait()
    return "never"


class Delegate:
    """A delegate that returns the rows of a test and records its calls."""

    def __init__(self, *rows: list[dict[str, Any]]) -> None:
        self.rows: Any = list(rows)
        self.calls: list[tuple[Mapping[str, str], str | None]] = []
        self.running = self.most_running = 0

    async def read_pending(
        self, headers: Mapping[str, str], session_id: str | None
    ) -> PendingBatch | None:
        self.calls.append((headers, session_id))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)  # so that other tasks run
        self.running -= 1
        if isinstance(self.rows, BaseException):
            raise self.rows
        return None if self.rows is None else PendingBatch(TOKEN, self.rows)


def a_client(delegate: Any, mode: str = "2025-11-25") -> Client:
    return Client(Gateway({"s": server}, delegate=delegate), mode=mode)


def texts(result: Any) -> list[str]:
    return [block["text"] for block in result.raw["content"]]


ERAS = pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])


@pytest.mark.system("O02")
@ERAS
async def test_result_without_a_delegate_is_unchanged(mode):
    async with a_client(None, mode) as client:
        result = await client.call_tool("s_echo", {"words": "hi"})
        assert texts(result) == ["hi"]
        assert NOTIFICATIONS not in (result.raw.get("_meta") or {})


@pytest.mark.system("O01", "O05")
@pytest.mark.parametrize("rows", [None, [], [[], []]])
async def test_result_without_pending_rows_is_unchanged(rows):
    delegate = Delegate()
    delegate.rows = rows
    async with a_client(delegate) as client, a_client(None) as bare:
        result = await client.call_tool("s_echo", {"words": "hi"})
        assert result.raw == (await bare.call_tool("s_echo", {"words": "hi"})).raw
        assert len(delegate.calls) == 1


@pytest.mark.system("O04", "O06", "O07", "L-O14")
@ERAS
@pytest.mark.parametrize(
    ("rows", "style", "middle", "count"),
    [
        ([[text("a")]], "flat", ["a"], 1),
        ([[text("a"), text("b")], [text("c")]], "flat", ["a", "b", "c"], 3),
        ([[text("a")], [], [text("b")]], "separated", ["a", "\n\n", "b"], 2),
    ],
)
async def test_pending_rows_are_inserted_before_the_content(
    rows, style, middle, count, mode
):
    delegate = Splicer(Delegate(*rows), style=style)
    async with a_client(delegate, mode) as client:
        result = await client.call_tool("s_echo", {"words": "hi"})
    first, *between, last, original = texts(result)
    assert (between, original) == (middle, "hi")
    assert (first, last) == (opening(TOKEN), closing(TOKEN))
    assert token_of(result.raw) == TOKEN
    assert result.raw["_meta"][NOTIFICATIONS]["count"] == count


@pytest.mark.rule("META-03", "META-05")
@ERAS
async def test_added_meta_key_has_a_reverse_dns_prefix(mode):
    delegate = Delegate([text("news")])
    async with a_client(delegate, mode) as client, a_client(None, mode) as bare:
        arguments = {"words": "hi"}
        with_news = (await client.call_tool("s_echo", arguments)).raw
        without = (await bare.call_tool("s_echo", arguments)).raw
    assert with_news["_meta"].items() >= without.get("_meta", {}).items()
    [added] = with_news["_meta"].keys() - without.get("_meta", {}).keys()
    prefix, _, name = added.partition("/")
    # 2026-07-28 basic, "_meta": the second label of those of the protocol is "mcp" or
    # "modelcontextprotocol"; the first of a reversed domain is a top-level one.
    top, second, *_ = prefix.split(".")
    assert top in {"com", "dev", "io", "net", "org"}
    assert second not in {"mcp", "modelcontextprotocol"}
    assert name.isalpha()


@pytest.mark.system("O03")
async def test_delegate_is_called_once_for_each_successful_call():
    delegate = Delegate([text("news")])
    async with a_client(delegate) as client:
        for _ in range(2):
            await client.call_tool("s_echo", {"words": "hi"})
        assert len(delegate.calls) == 2
        with pytest.raises(RPCError, match="unknown tool"):
            await client.call_tool("s_nothing")
        with pytest.raises(RPCError, match="upstream error"):
            await client.call_tool("s_refuse")
        await client.list_tools()
        assert len(delegate.calls) == 2


@pytest.mark.system("O03")
async def test_delegate_is_not_called_for_a_cancelled_call():
    delegate = Delegate([text("news")])
    begun = asyncio.Event()
    async with a_client(delegate) as client:
        calling = asyncio.ensure_future(
            client.call_tool("s_linger", on_progress=lambda *_: begun.set())
        )
        await begun.wait()
        calling.cancel()
        await asyncio.wait([calling])
        await client.ping()
        assert delegate.calls == []


@pytest.mark.system("O03")
async def test_delegate_is_called_sequentially_within_a_session():
    delegate = Delegate([text("news")])
    splicer = Splicer(delegate)
    async with a_client(splicer) as client:
        calls = [client.call_tool("s_echo", {"words": str(n)}) for n in range(5)]
        results = await asyncio.gather(*calls)
        assert [texts(result)[-1] for result in results] == list("01234")
        assert (len(delegate.calls), delegate.most_running) == (5, 1)


@pytest.mark.system("O01")
@pytest.mark.parametrize(
    "rows",
    [
        ValueError("the backend is gone"),
        asyncio.CancelledError("something of the backend's, not the call"),
        [[{"type": "text", "text": float("nan")}]],
        [[{"type": "text", "text": "\ud800"}]],
        [object()],
        7,
    ],
)
async def test_failure_of_the_delegate_leaves_the_result_unchanged(rows, caplog):
    delegate = Delegate()
    delegate.rows = rows
    async with a_client(delegate) as client:
        assert texts(await client.call_tool("s_echo", {"words": "hi"})) == ["hi"]
        assert "the delegate failed" in caplog.text


@pytest.mark.system("O01")
async def test_slow_delegate_is_skipped_after_the_timeout():
    class Slow:
        async def read_pending(self, *_: Any) -> None:
            await asyncio.Event().wait()

    async with a_client(Splicer(Slow(), timeout=0.01)) as client:
        assert texts(await client.call_tool("s_echo", {"words": "hi"})) == ["hi"]


@pytest.mark.system("L-O15")
@pytest.mark.parametrize(("skips", "count"), [(True, 0), (False, 1)])
async def test_tool_error_results_can_be_skipped(skips, count):
    delegate = Delegate([text("news")])
    async with a_client(Splicer(delegate, skip_on_tool_error=skips)) as client:
        result = await client.call_tool("s_fail")
        assert result.is_error
        assert len(delegate.calls) == count
        assert (token_of(result.raw) is None) is skips


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Gateway({}, delegate=object()), TypeError, "read_pending"),
        (lambda: Splicer(Delegate(), style="x"), ValueError, "style"),
        (lambda: Splicer(Delegate(), tag="<"), ValueError, "tag"),
        (lambda: Splicer(Delegate(), timeout=0), ValueError, "timeout"),
    ],
)
def test_invalid_option_is_refused_at_construction(make, error, says):
    with pytest.raises(error, match=says):
        make()
