"""What the transformer makes of small pieces of source, and what it refuses."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from to_blocking import Tables, UntranslatableError, to_blocking

TABLES = Tables(
    modules={"ours.here": "ours.there", "ours.pure": "ours.pure"},
    names={"opener": "blocking_opener"},
    asyncio={"sleep": "time.sleep", "CancelledError": "KeyboardInterrupt"},
    guarded=("ours",),
    words=[("aclose", "close"), ("async with", "with")],
)


def translate(source, **options):
    return to_blocking(source, "x.py", TABLES, **options)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("async def f(a): return await g(a)", "def f(a): return g(a)"),
        ("async def f():\n    async with a as b, c:\n        ...",
         "def f():\n    with a as b, c:\n        ..."),
        ("async def f():\n    async for a in b:\n        yield a",
         "def f():\n    for a in b:\n        yield a"),
        ("async def f(): return [a async for a in b if await c]",
         "def f(): return [a for a in b if c]"),
        ("async def f(): return {a: b async for (a, b) in c}",
         "def f(): return {a: b for (a, b) in c}"),
        ("async def f(): return (await g()).bytes", "def f(): return g().bytes"),
        ("async def f(): h(await g(), await g())", "def f(): h(g(), g())"),
        ("async def f(): return (await g() or 1)", "def f(): return (g() or 1)"),
        ("async def f(): return not (await g())", "def f(): return not g()"),
        ("async def f(): return (await (g or h)())", "def f(): return (g or h)()"),
        ("async def f(): await a.aclose()", "def f(): a.close()"),
        ("def f(): raise StopAsyncIteration", "def f(): raise StopIteration"),
        ("async def f(): return await anext(aiter(a))",
         "def f(): return next(iter(a))"),
        ("class A:\n    async def __aenter__(self): ...",
         "class A:\n    def __enter__(self): ..."),
        ("class A:\n    def __aiter__(self): ...\n    async def __anext__(self): ...",
         "class A:\n    def __iter__(self): ...\n    def __next__(self): ..."),
        ("def f() -> Awaitable[int]: ...", "def f() -> int: ..."),
        ("def f() -> Coroutine[Any, Any, AsyncIterator[int]]: ...",
         "def f() -> Iterator[int]: ..."),
        ("from collections.abc import AsyncIterator, Awaitable, Mapping",
         "from collections.abc import Iterator, Mapping"),
        ("from ours.here.inner import opener as o, b",
         "from ours.there.inner import blocking_opener as o, b"),
        ("from ours.pure import a", "from ours.pure import a"),
        ("try: ...\nexcept asyncio.CancelledError: raise",
         "try: ...\nexcept KeyboardInterrupt: raise"),
        ("@a\nasync def f():  # says nothing\n    'äöü'; await g()  # ü",
         "@a\ndef f():  # says nothing\n    'äöü'; g()  # ü"),
        ("async def f():\n    # async with: aclose\n    ...",
         "def f():\n    # with: close\n    ..."),
        ('class A:\n    a: int\n    """Set by `aclose`."""',
         'class A:\n    a: int\n    """Set by `close`."""'),
        ("a = x('tasks/get')", "a = x('tasks/get')"),
    ],
)  # fmt: skip
def test_what_only_awaits_becomes_what_blocks(source, expected):
    assert translate(source) == expected


def test_a_function_of_asyncio_brings_the_import_of_what_takes_its_place():
    source = (
        "from __future__ import annotations\n\nimport asyncio\n\n"
        "async def f():\n    await asyncio.sleep(1)\n"
    )
    assert translate(source) == (
        "from __future__ import annotations\n\nimport time\n\n\n"
        "def f():\n    time.sleep(1)\n"
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("\nasyncio.gather(a)", "x.py:2: asyncio.gather has no blocking form"),
        ("a = asyncio", "x.py:1: asyncio itself"),
        ("import asyncio.queues", "x.py:1: asyncio.queues"),
        ("from asyncio import Queue", "x.py:1: asyncio has"),
        ("import anyio", "x.py:1: anyio"),
        ("from . import a", "x.py:1: imports name their module in full"),
        ("from ours.unknown import a", "does not know ours.unknown"),
        ("import ours.here", "x.py:1: import names from ours.here"),
        ("from collections.abc import Awaitable", "x.py:1: nothing of this import"),
        ("class A:\n    def __await__(self): ...", "x.py:2: what is awaited"),
        ("async def f(): return f'{await a}'", "x.py:1: put it into a variable"),
        ("def f(): return f'{opener}'", "x.py:1: put it into a variable"),
        ("async def f():\n    await asyncio.sleep(1)", "no 'from __future__"),
        ("loop.create_task(f())", "line 1 of the outcome still says: loop.create_task"),
        ("'''Cancelling the task.'''", "still says: '''Cancelling the task"),
        ("a = 1  # plain or async", "still says: a = 1  # plain or async"),
        ("inspect.isawaitable(a)", "still says"),
        ("self._event_loop = get()  # the event loop", "still says"),
    ],
)  # fmt: skip
def test_what_has_no_blocking_form_is_refused_with_its_place(source, why):
    with pytest.raises(UntranslatableError, match=re.escape(why)):
        translate(source)


def test_a_line_may_be_allowed_to_keep_its_word():
    tables = Tables(left_over=frozenset({"a = 'async'"}))
    assert to_blocking("a = 'async'", "x.py", tables) == "a = 'async'"


def test_a_source_may_speak_of_tasks_and_of_nothing_else_of_a_loops():
    tables = Tables(of_tasks=frozenset({"tasks.py"}))
    assert to_blocking("a = 'the Task', 'tasks'", "tasks.py", tables)
    with pytest.raises(UntranslatableError, match="still says"):
        to_blocking("a = 'the task'", "x.py", tables)
    with pytest.raises(UntranslatableError, match="still says"):
        to_blocking("a = 'the task awaits'", "tasks.py", tables)


def test_a_text_is_found_whatever_its_line_breaks_and_keeps_the_indent():
    source = '''class A:
    async def f(self):
        """Do it.

        Cancelling the
        task does it. And more.
        """'''
    told = translate(
        source, texts=[("A.f", "Cancelling the task does it.", "Ctrl-C\ndoes it.")]
    )
    assert (
        told
        == '''class A:
    def f(self):
        """Do it.

        Ctrl-C
        does it. And more.
        """'''
    )


def test_a_text_can_go_without_a_trace():
    source = '"""First. Second.\nThird."""'
    assert translate(source, texts=[("", "Second.", "")]) == '"""First. Third."""'


def test_a_text_that_nobody_says_is_refused():
    with pytest.raises(UntranslatableError, match=r"no text of 'A\.f' says 'here'"):
        translate("class A:\n    'here'", texts=[("A.f", "here", "there")])


@pytest.mark.parametrize(("source", "times"), [("a = 1", 0), ("b\nb", 2)])
def test_a_patch_must_match_exactly_once(source, times):
    with pytest.raises(UntranslatableError, match=f"it matches {times} times: 'b'"):
        translate(source, patches=[("b", "c")])


def test_a_patch_comes_before_everything_else():
    source = "async def f(): await forever()"
    assert translate(source, patches=[("await forever()", "g()")]) == "def f(): g()"
