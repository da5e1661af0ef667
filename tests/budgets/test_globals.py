"""No state of the process is on a call's path: whatever changes belongs to a value.

Modules hold tables, which nobody changes. What is kept in a module and does change is
listed here with its reason, and no call touches it once it is warm.
"""

import ast
from pathlib import Path

import pytest
from paths import CELLS, counted
from sources import uncollected

import mcpwire

PACKAGE = Path(mcpwire.__file__).parent

ALLOWED = {
    "check/cases/hygiene.py: _SHUTDOWNS": "what several cases see once, held weakly",
    "check/cases/hygiene.py: _RESOURCE_USES": "as above",
    "bench/compare.py: _polynomial": "numbers of draws, equal for all figures",
    "bench/worker.py: _is_sampled": "a context variable is the task's own",
    "check/schemas.py: load_schemas": "the schemas of the specification",
    "cli/interactive.py: RUNNING_BROWSERS": "browsers that outlive the command",
    "protocol/skills.py: _bounded_loader": "a class, made with PyYAML",
    "gateway/forwarding.py: _current_request": "a context variable is the task's own",
    "server/context.py: _current": "a context variable is the task's own",
    "server/auth/resource_server.py: client_address": "a context variable",
    "sync/_facade.py: _facades": "one facade of an asyncio object, held weakly",
    "sync/_runner.py: _background_runners": "threads to end at the exit, held weakly",
    "sync/_runner.py: _parent_loops": "loops of a parent process, which must not close",
    "testing/asgi.py: _stream_class": "a class, made with httpx",
    "transports/base.py: _forkables": "what a fork must let go of: connections, weakly",
    "transports/http/httpx_engine.py: _current": "a context variable",
}
"""What is kept in modules and changes."""

CONTAINERS = {
    *("dict", "list", "set", "bytearray", "deque", "defaultdict", "OrderedDict"),
    *("Counter", "WeakSet", "WeakKeyDictionary", "WeakValueDictionary", "ChainMap"),
    *("ContextVar", "local", "count", "cycle", "Lock", "RLock", "Event", "Condition"),
    *("Codec", "Queue", "SimpleQueue", "LifoQueue"),
}
CACHES = {"cache", "lru_cache"}
CHANGING = {
    *("append", "add", "update", "setdefault", "pop", "popitem", "clear", "extend"),
    *("insert", "remove", "discard", "appendleft", "popleft", "sort", "reverse"),
}


def called(node):
    """Return the last name of what is called, subscripts aside."""
    function = node.func
    while isinstance(function, ast.Subscript):
        function = function.value
    return getattr(function, "attr", getattr(function, "id", ""))


def is_empty(node):
    """Tell whether that is a container that only somebody later can fill."""
    if isinstance(node, ast.Dict):
        return not node.keys
    return isinstance(node, (ast.List, ast.Set)) and not node.elts


def bound(tree):
    """Return the names that a module binds to values, with the values."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.value


def cached(tree):
    """Return the functions, wherever they stand, that remember their results."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                made = decorator.func if isinstance(decorator, ast.Call) else decorator
                if getattr(made, "attr", getattr(made, "id", "")) in CACHES:
                    yield node.name


def inside_functions(tree):
    """Return all that stands within functions, each node once."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            found += ast.walk(node)
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def changed(inside, names):
    """Return which of these names functions change, or bind anew."""
    for node in inside:
        if isinstance(node, ast.Global):
            yield from node.names
        value = None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            value = node.value
        elif isinstance(node, ast.Call) and called(node) in CHANGING:
            value = getattr(node.func, "value", None)
        if isinstance(value, ast.Name) and value.id in names:
            yield value.id


def state_of(source):
    """Return what of a module may change, by name."""
    tree = ast.parse(source)
    values = dict(bound(tree))
    found = {
        name
        for name, value in values.items()
        if is_empty(value)
        or (isinstance(value, ast.Call) and called(value) in CONTAINERS)
    }
    inside = inside_functions(tree)
    local = {
        node.id
        for node in inside
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return found | set(cached(tree)) | set(changed(inside, values.keys() - local))


def state():
    """Return the same of the package."""
    with uncollected():
        return {
            f"{path.relative_to(PACKAGE).as_posix()}: {name}"
            for path in PACKAGE.rglob("*.py")
            for name in state_of(path.read_text(encoding="utf-8"))
        }


@pytest.mark.timeout(180)
def test_what_modules_keep_and_change_is_listed_with_its_reason():
    assert state() == ALLOWED.keys()


@pytest.mark.parametrize("cell", CELLS)
def test_no_call_changes_what_modules_keep(cell):
    assert counted(cell)["grown"] == []


@pytest.mark.parametrize(
    ("source", "names"),
    {
        "an empty container": ("A: dict[str, int] = {}", {"A"}),
        "one that is made": ("A = deque[int]()", {"A"}),
        "a table that is changed": ("A = {1: 2}\ndef f():\n    A[2] = 3", {"A"}),
        "one that grows": ("A = [1]\ndef f():\n    A.append(2)", {"A"}),
        "one that is cut": ("A = {1: 2}\ndef f():\n    del A[1]", {"A"}),
        "a cache": ("@functools.cache\ndef f(): ...", {"f"}),
        "a cache with a size": ("@lru_cache(maxsize=9)\ndef f(): ...", {"f"}),
        "a name bound anew": ("A = 1\ndef f():\n    global A\n    A = 2", {"A"}),
        "a table": ("A = {1: 2}\ndef f():\n    return A[1]", set()),
        "somebody else's": ("A = [1]\ndef f(a):\n    a.append(2)", set()),
    }.values(),
)
def test_state_is_told_from_tables(source, names):
    assert state_of(source) == names
