"""The blocking client is what the generator makes of the asyncio one, name by name."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import generate
from blocking_tables import FILES
from to_blocking import SYNTAX

import mcpwire
import mcpwire.sync

ROOT = Path(__file__).parents[2]

RENAMED = {**SYNTAX, "__await__": "result"}
"""Names of the asyncio client that the blocking one has in its own form."""

OWN_PARAMETERS = {"__init__": {"background"}}
"""What only the blocking client takes."""


def members(value):
    """Return the names a class has, and the functions behind them."""
    return {
        name: getattr(member, "fget", member)
        for name, member in inspect.getmembers_static(value)
        if not name.startswith("_") or name in {"__init__", *SYNTAX, *SYNTAX.values()}
    }


BY_HAND = {"Group", "ToolSet"}
"""What is written twice, and compared in `group/test_blocking_parity.py`."""

NAMES = sorted(set(mcpwire.sync.__all__) - {"CallOptions"} - BY_HAND)

PAIRS = [(getattr(mcpwire, name), getattr(mcpwire.sync, name)) for name in NAMES]


@pytest.mark.parametrize("source", FILES)
def test_each_generated_module_is_what_the_generator_makes_now(source):
    there = (ROOT / FILES[source]).read_text(encoding="utf-8")
    assert there == generate.made(source), "run: python tests/sync/generate.py --write"


def test_everything_in_the_generated_folders_is_generated():
    made = {
        path.relative_to(ROOT).as_posix()
        for folder in ("_made", "client")
        for path in (ROOT / "mcpwire/sync" / folder).glob("*.py")
    }
    assert made - {"mcpwire/sync/_made/__init__.py"} == set(FILES.values())


@pytest.mark.pain("P12")
@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda value: value.__name__)
def test_both_clients_have_the_same_names(theirs, ours):
    expected = {RENAMED.get(name, name) for name in members(theirs)}
    if "__await__" in vars(theirs):
        expected.add("result")
    assert set(members(ours)) == expected


def parameters(function, name):
    """Return what a function takes, without what only the blocking one has."""
    own = OWN_PARAMETERS.get(name, ())
    return [
        (each.name, each.kind, each.default)
        for each in inspect.signature(function).parameters.values()
        if each.name not in own
    ]


@pytest.mark.pain("P12")
@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda value: value.__name__)
def test_both_clients_take_the_same_parameters(theirs, ours):
    own = members(ours)
    for name, function in members(theirs).items():
        if inspect.isfunction(function):
            twin = own[RENAMED.get(name, name)]
            assert parameters(twin, name) == parameters(function, name), name


@pytest.mark.parametrize(("_", "ours"), PAIRS, ids=lambda value: value.__name__)
def test_each_public_name_of_the_blocking_client_is_explained(_, ours):
    assert ours.__doc__
    for name, member in members(ours).items():
        if not name.startswith("_"):
            assert member.__doc__, name


WRITTEN = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "mcpwire/sync").rglob("*.py")
    if path.relative_to(ROOT).as_posix() not in FILES.values()
)


@pytest.mark.parametrize("path", WRITTEN)
def test_nothing_written_by_hand_awaits_either(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    awaiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    found = [node.lineno for node in ast.walk(tree) if isinstance(node, awaiting)]
    # What exists on asyncio only runs there, in a thread, whoever talks to it.
    assert not found or path == "mcpwire/sync/_relay.py"


def test_the_generator_says_what_it_would_write_and_takes_no_other_words():
    command = [sys.executable, str(ROOT / "tests/sync/generate.py")]
    done = subprocess.run(
        [*command, "--help"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "usage" in done.stderr


def test_a_generated_module_names_its_source_and_its_command():
    for source, target in FILES.items():
        head = (ROOT / target).read_text(encoding="utf-8").splitlines()[:2]
        assert "generate.py --write" in head[0]
        assert re.fullmatch(r"# (\S+)", head[1])[1] == source


LOADED = """
import sys
import mcpwire.sync
with mcpwire.sync.Client(sys.argv[1]) as client:
    client.list_tools()
    client.call_tool("echo", {"message": "hi"})
print(*{"asyncio", "anyio", "concurrent.futures"}.intersection(sys.modules))
"""


@pytest.mark.system("L-R2")
@pytest.mark.pain("P12")
def test_the_blocking_client_calls_without_any_loop_in_the_process():
    server = f"{sys.executable} -m mcpwire demo-server"
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOADED, server],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.split() == []


def test_importing_the_package_loads_nothing_of_the_client():
    code = (
        "import sys, mcpwire.sync\nprint(*(m for m in sys.modules if 'mcpwire' in m))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert set(done.stdout.split()) <= {"mcpwire", "mcpwire._version", "mcpwire.sync"}


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        mcpwire.sync.no_such_name  # noqa: B018 - the access is the subject
    assert set(mcpwire.sync.__all__) <= set(dir(mcpwire.sync))


WITHOUT_TWIN = (
    *("mcpwire.server.", "mcpwire.gateway."),
    "mcpwire.transports.custom.",
)
"""Servers run on loops, whoever talks to them, and a gateway is one; the targets of
users say what both clients do, and what needs a loop the blocking one refuses."""


def test_each_name_that_belongs_to_a_loop_has_a_twin_that_does_not():
    belonging = {
        name
        for name in mcpwire.__all__
        for value in [getattr(mcpwire, name)]
        if inspect.isclass(value)
        and not value.__module__.startswith(WITHOUT_TWIN)
        and any(map(inspect.iscoroutinefunction, vars(value).values()))
    }
    assert belonging <= set(mcpwire.sync.__all__)
