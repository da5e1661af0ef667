"""Each gate on the tree fails on samples of a few lines."""

import gates
import pytest
from sources import Module

FLOOR = Module.parse("mcpwire.errors", "")
ROOT = Module.parse("mcpwire", "", path="mcpwire/__init__.py", is_package=True)
OTHERS = [
    ROOT,
    FLOOR,
    *(
        Module.parse(f"mcpwire.{name}", "")
        for name in (
            *("versions", "wire.json", "types.tools", "protocol.peer", "auth.flow"),
            *("transports.stdio", "transports.base", "sync.runner", "sync.client"),
            *("client", "server.tools", "group", "tools", "gateway.proxy", "cli.main"),
        )
    ),
]


def run(gate, name, source, **options):
    module = Module.parse(name, source, **options)
    others = [other for other in OTHERS if other.name != name]
    return [(found.gate, found.where) for found in gate([module, *others])]


GOES_DOWN = [
    ("mcpwire.versions", "from mcpwire.errors import MCPError"),
    ("mcpwire.wire.json", "from mcpwire import errors"),
    ("mcpwire.transports.stdio", "from mcpwire.transports.base import Channel"),
    ("mcpwire.transports.stdio", "from .base import Channel"),
    ("mcpwire.transports.stdio", "from ..errors import MCPError"),
    ("mcpwire.sync.client", "from mcpwire.group import Group"),
    ("mcpwire.client", "from mcpwire import __version__"),
    ("mcpwire.group", "from mcpwire.tools import ToolSet"),
    ("mcpwire.cli.main", "from mcpwire import Client"),
    ("mcpwire", "from mcpwire.client import Client"),
]


@pytest.mark.parametrize(("name", "source"), GOES_DOWN)
def test_downward_and_same_folder_imports_are_allowed(name, source):
    assert run(gates.check_layers, name, source) == []


GOES_UP = [
    ("mcpwire.errors", "import mcpwire.wire.json", "mcpwire.wire.json"),
    ("mcpwire.wire.json", "from ..types import tools", "mcpwire.types.tools"),
    ("mcpwire.protocol.peer", "from mcpwire.auth import flow", "mcpwire.auth.flow"),
    ("mcpwire.transports.stdio", "import mcpwire.sync.runner", "mcpwire.sync.runner"),
    ("mcpwire.server.tools", "from mcpwire.client import x", "mcpwire.client"),
    ("mcpwire.client", "from mcpwire import Client", "mcpwire.Client"),
    ("mcpwire", "import mcpwire.cli.main", "mcpwire.cli.main"),
    ("mcpwire.group", "from mcpwire import Client", "mcpwire.Client"),
]


@pytest.mark.parametrize(("name", "source", "target"), GOES_UP)
@pytest.mark.parametrize(
    "frame",
    [
        *("{}", "def late():\n    {}", "class A:\n    def late(self):\n        {}"),
        *("if TYPE_CHECKING:\n    {}", "try:\n    {}\nexcept ImportError:\n    pass"),
    ],
    ids=["plain", "in a function", "in a method", "for types only", "in a try"],
)
def test_upward_import_is_found_at_any_depth(name, source, target, frame):
    found = run(gates.check_layers, name, frame.format(source))
    assert found == [("layers", f"{name} -> {target}")]


def test_a_module_outside_every_layer_is_found():
    found = run(gates.check_layers, "mcpwire.utils", "")
    assert found == [("layers", "mcpwire.utils")]


@pytest.mark.parametrize(
    "source",
    [
        *("import time", "import asyncio.events", "from os import path"),
        "def late():\n    import logging",
        *("if typing.TYPE_CHECKING:\n    import socket", "async def f(): ..."),
        *("print(1)", "open('x')", "datetime.now()", "uuid.uuid4()"),
    ],
)
def test_impure_code_in_a_pure_layer_is_found(source):
    name = "mcpwire.protocol.peer"
    assert run(gates.check_purity, name, source) == [("purity", name)]
    assert run(gates.check_purity, "mcpwire.client", source) == []


@pytest.mark.parametrize("source", ["import math", "peer.open()", "now()", "x.print()"])
def test_names_that_only_look_impure_are_allowed(source):
    assert run(gates.check_purity, "mcpwire.protocol.peer", source) == []


@pytest.mark.parametrize(
    ("name", "source", "breaches"),
    [
        ("mcpwire.wire.json", "import orjson", False),
        ("mcpwire.wire.jsonrpc", "import orjson", True),
        ("mcpwire.client", "def f():\n    from orjson import loads", True),
        ("mcpwire.types.tools", "import attr", False),
        ("mcpwire.types.tools", "import anyio", True),
        ("mcpwire.transports.stdio", "import anyio.to_thread", False),
        ("mcpwire.transports.http", "import httpx", True),
        ("mcpwire.transports.http", "def f():\n    import httpx", False),
        ("mcpwire.transports.http", "if TYPE_CHECKING:\n    import httpx", False),
        ("mcpwire.server.authoring.conversion", "import msgspec", False),
        ("mcpwire.server.server", "import msgspec", True),
        ("mcpwire.server.http.uvicorn", "def f():\n    import uvicorn", False),
        ("mcpwire.client", "def f():\n    import uvicorn", True),
        ("mcpwire.client", "import requests", True),
        ("mcpwire.client", "import json, collections.abc", False),
    ],
)
def test_third_party_import_outside_its_modules_is_found(name, source, breaches):
    found = run(gates.check_third_parties, name, source)
    assert [gate for gate, _ in found] == ["third parties"] * breaches


def test_computed_import_outside_packages_is_found():
    source = "import importlib\nimportlib.import_module(name)"
    name = "mcpwire.client"
    assert run(gates.check_dynamic_imports, name, source) == [("dynamic imports", name)]
    assert run(gates.check_dynamic_imports, "mcpwire", source, is_package=True) == []


@pytest.mark.parametrize(
    ("source", "breaches"),
    [
        ("from mcpwire.errors import _rebuild", True),
        ("def f():\n    from .errors import _rebuild", True),
        ("from mcpwire import __version__", False),
        ("from mcpwire.errors import MCPError", False),
        ("from mcpwire.wire import json", False),
        ("from mcpwire import _private_module", False),
        ("from collections import _x", False),
    ],
)
def test_private_name_imported_from_another_module_is_found(source, breaches):
    private = Module.parse("mcpwire._private_module", "")
    module = Module.parse("mcpwire.client", source)
    found = list(gates.check_private_names([module, private, *OTHERS]))
    assert len(found) == breaches


def test_import_cycle_is_found_with_its_path():
    modules = [
        Module.parse("mcpwire.wire.a", "from mcpwire.wire import b"),
        Module.parse("mcpwire.wire.b", "import mcpwire.wire.c"),
        Module.parse("mcpwire.wire.c", "from .a import x"),
        Module.parse("mcpwire.wire.d", "from .a import x"),
    ]
    circle = "mcpwire.wire.a -> mcpwire.wire.b -> mcpwire.wire.c -> mcpwire.wire.a"
    found = [finding.where for finding in gates.check_cycles(modules)]
    assert circle in found


def test_deferred_and_typing_imports_make_no_cycle():
    modules = [
        Module.parse("mcpwire.wire.a", "def f():\n    import mcpwire.wire.b"),
        Module.parse("mcpwire.wire.b", "if TYPE_CHECKING:\n    from . import c"),
        Module.parse("mcpwire.wire.c", "import mcpwire.wire.a"),
    ]
    assert list(gates.check_cycles(modules)) == []


def test_a_long_file_is_found():
    exact = Module.parse("mcpwire.client", "x = 1\n" * 1_200)
    longer = Module.parse("mcpwire.group", "x = 1\n" * 1_201)
    found = list(gates.check_file_sizes([exact, longer]))
    assert found == [("file size", "mcpwire/group.py", "1201 lines")]


def make_function(lines, docstring=""):
    return "async def f():\n" + docstring + "    x = 1\n" * (lines - 1)


def test_a_long_function_is_found_and_its_docstring_does_not_count():
    docstring = '    """Say\n\n    a lot.\n    """\n'
    modules = [
        Module.parse("mcpwire.client", make_function(60, docstring)),
        Module.parse("mcpwire.group", make_function(61, docstring)),
    ]
    found = [finding[:2] for finding in gates.check_function_sizes(modules)]
    assert found == [("function size", "mcpwire.group.f")]


@pytest.mark.parametrize(("long_ones", "found"), [(5, []), (6, ["mcpwire"])])
def test_one_function_in_twenty_may_be_long(long_ones, found):
    lengths = [29] * (100 - long_ones) + [30] * long_ones
    source = "".join(map(make_function, lengths))
    findings = gates.check_usual_function_size([Module.parse("mcpwire.a", source)])
    assert [finding.where for finding in findings] == found


WHOLE = "class A:\n    pass\n"


@pytest.mark.parametrize(
    ("base", "derived", "found"),
    [
        (WHOLE, "class B(A):\n    pass", True),
        (WHOLE, "class B(a.A):\n    pass", True),
        (WHOLE, "class B(A[int]):\n    pass", True),
        (WHOLE, "class B(A):\n    pass\nclass C(A):\n    pass", False),
        (WHOLE + "class B(A):\n    pass", "", False),
        ("class A(Protocol):\n    pass", "class B(A):\n    pass", False),
        ("class AError:\n    pass", "class B(AError):\n    pass", False),
        ("class A:\n    if TYPE_CHECKING:\n        x: int", "", True),
    ],
)
def test_class_split_over_files_is_found(base, derived, found):
    modules = [
        Module.parse("mcpwire.wire.a", base),
        Module.parse("mcpwire.wire.b", derived),
    ]
    findings = [each.where for each in gates.check_class_in_one_file(modules)]
    assert findings == ["mcpwire/wire/a.py A"] * found


@pytest.mark.parametrize(
    ("source", "breaches"),
    [
        ("loop._selector", True),
        ("from asyncio import _enter_task", True),
        ("class A(Base):\n    def _start_asgi_task(self): ...", True),
        ("loop._ready", True),
        ("class A:\n    def f(self):\n        self._x = 1\nb._x", False),
        ("a._x = 1", True),
        ("getattr(loop, '_ready')", True),
        ("self._asyncio_future_blocking = True", True),
        ("super()._start()", False),
        ("os._exit(1)", False),
        ("self._mine = 1\nself._mine", False),
        ("class A:\n    __slots__ = ('_x',)\na._x", False),
        ("from mcpwire.wire.json import _x", False),
        ("a.__dict__", False),
    ],
)
def test_private_attribute_of_another_package_is_found(source, breaches):
    module = Module.parse("mcpwire.client", source)
    assert len(list(gates.check_private_parts([module]))) == breaches


ERRORS = Module.parse("mcpwire.errors", "class RPCError(Exception): ...")


@pytest.mark.parametrize(
    ("text", "breaches"),
    [
        ("'the cursor is none that this list has'", True),
        ("f'{name} is no URL'", True),
        ("'whoever reads it'", True),
        ("'what came is too long'", True),
        ("'nobody answers'", True),
        ("'the server was told'", True),
        ("'unknown cursor: it was not issued for this list'", False),
        ("'it is not a URL'", False),
        ("message", False),
    ],
)
def test_an_error_text_in_dialect_is_found(text, breaches):
    for making in ("raise ValueError({})", "e = errors.RPCError(1, message={})"):
        source = f"{making.format(text)}\nsay('is none')"
        module = Module.parse("mcpwire.client", source)
        findings = gates.check_error_texts([ERRORS, module])
        assert len(list(findings)) == breaches


def test_pure_modules_are_listed_by_name():
    assert gates.is_pure("mcpwire.errors")
    assert gates.is_pure("mcpwire.auth.flow")
    assert not gates.is_pure("mcpwire.authoring")
    assert "mcpwire/wire.py,mcpwire/wire/*" in gates.pure_files()


def test_pure_module_inside_a_package_is_checked_by_name(monkeypatch):
    monkeypatch.setattr(gates, "PURE", ("group.names",))
    assert gates.is_pure("mcpwire.group.names")
    assert not gates.is_pure("mcpwire.group")
    assert gates.pure_files() == "mcpwire/group/names.py,mcpwire/group/names/*"
    modules = [Module.parse("mcpwire.group.names", "")]
    assert list(gates.check_pure_names(modules)) == []
    assert [each.where for each in gates.check_pure_names([])] == ["group.names"]


def test_waiver_removes_only_its_own_finding():
    findings = [
        gates.Finding("layers", "a -> b", "x"),
        gates.Finding("purity", "a", "y"),
    ]
    left = gates.unwaived(findings, {("layers", "a -> b"): "until the split"})
    assert left == ["[purity] a: y"]


@pytest.mark.parametrize(
    ("waivers", "message"),
    [
        ({("layers", "gone"): "reason"}, "nothing needs it any more"),
        ({("layers", "a -> b"): " "}, "has no reason"),
    ],
)
def test_unused_or_unexplained_waiver_is_reported(waivers, message):
    left = gates.unwaived([gates.Finding("layers", "a -> b", "x")], waivers)
    assert any(message in line for line in left)
