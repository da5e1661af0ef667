"""The memory of a run: all octets and messages of its cases, compressed.

tracemalloc counts the bytes.
"""

import asyncio
import gc
import sys
import tracemalloc
from pathlib import Path

from mcpwire import Stdio
from mcpwire.check import Level, Options, Verdict, run
from mcpwire.check.case import Family, Start
from mcpwire.check.results import Cell, Result
from mcpwire.check.subject import Message, MessageLog

SERVER = Stdio(sys.executable, [str(Path(__file__).with_name("server.py"))])
CELL = Cell("server", "stdio", "2025-11-25")
FEW = Options(revisions=("2025-11-25",))

MANY = 1_000
"""Requests of one case."""


def traced():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_messages_of_earlier_cases_are_compressed():
    sizes, seen = [], []

    async def ask(subject):
        sizes.append(traced())
        for _ in range(MANY):
            await subject.request("tools/list")

    async def collect(subject):
        seen.extend(each.case for each in subject.received)

    family = Family("made")
    facts = {"source": "basic", "sends": "s", "expects": "e", "why": "w"}
    for id in ("OWN.a", "OWN.b", "OWN.c"):
        family.case(id, Level.MUST, id, **facts)(ask)
    family.case("OWN.d", Level.MUST, "d", **facts, start=Start.LAST)(collect)
    tracemalloc.start()
    try:
        report = asyncio.run(run(SERVER, FEW, cases=family.cases))
    finally:
        tracemalloc.stop()
    assert {each.verdict for each in report.results} == {Verdict.PASS}
    assert [seen.count(f"OWN.{id}") for id in "abc"] == [MANY + 1] * 3  # and a barrier
    # A decoded list of tools takes some thousand bytes.
    assert (sizes[2] - sizes[1]) / MANY < 600


def test_octets_of_results_are_compressed():
    line = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text"}]}}\n'

    def octets(number):
        lines = (line % (number * 100 + place) for place in range(100))
        return tuple((0.001, "received", 0, each) for each in lines)

    facts = {"level": Level.MUST, "verdict": Verdict.PASS, "title": "t", "source": ""}
    tracemalloc.start()
    try:
        before = traced()
        results = [
            Result(case="OWN.a", cell=CELL, octets=octets(number), **facts)
            for number in range(100)
        ]
        size = traced() - before
    finally:
        tracemalloc.stop()
    assert size < 100 * len(line) * len(results) / 4
    assert [each.octets for each in results] == [octets(n) for n in range(100)]


def test_messages_are_equal_after_compression():
    batch = b'[{"jsonrpc":"2.0","id":1,"result":{}},{"method":"a"}]'
    found = [
        Message(b'{"id":1}', {"id": 1}, "", 0, ""),
        Message(batch, {"jsonrpc": "2.0", "id": 1, "result": {}}, "", 3, "A01.a"),
        Message(batch, {"method": "a"}, "", 3, "A01.a"),
        Message(b"[]", [], "", 4, "A01.a"),
        Message(b'\n{"id":\n2}\xff', None, "no JSON: ", 0, "A01.b"),
        Message(b"3", 3, "", 0, "A01.b"),
        Message(b"3", 3, "", 0, "A01.b"),
    ]
    received = MessageLog()
    for each in found[:4]:
        received.append(each)
    received.compress()
    for each in found[4:]:
        received.append(each)
    assert list(received) == found
    assert received[4:] == found[4:]
    received.compress()
    received.compress()

    def plain(messages):
        return [
            (each.raw, each.value, each.stream, each.case, bool(each.problem))
            for each in messages
        ]

    assert plain(received) == plain(found)
    assert plain(received[2:]) == plain(found[2:])
    assert len(received) == len(found)
    later = MessageLog()
    later.append(found[0])
    later.continue_from(received)
    assert plain(later) == plain([*found, found[0]])
    assert received[7:] == []
