"""Calls change no global state: mutable state belongs to instances.

Modules hold constant tables. Mutable state of a module is listed here with its reason,
and no call changes it after the warm-up.
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
    "transports/oauth/interactive_login.py: _servers": "ports of open logins, weakly",
}
"""Mutable state in modules, with its reason."""

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
    """Return the last name of the called expression, without subscripts."""
    function = node.func
    while isinstance(function, ast.Subscript):
        function = function.value
    return getattr(function, "attr", getattr(function, "id", ""))


def is_empty(node):
    """Return whether that is an empty container display."""
    if isinstance(node, ast.Dict):
        return not node.keys
    return isinstance(node, (ast.List, ast.Set)) and not node.elts


def bound(tree):
    """Yield the names that a module binds at the top level, with the values."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.value


def cached(tree):
    """Yield the names of cached functions at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                made = decorator.func if isinstance(decorator, ast.Call) else decorator
                if getattr(made, "attr", getattr(made, "id", "")) in CACHES:
                    yield node.name


def inside_functions(tree):
    """Return all nodes inside functions, each once."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            found += ast.walk(node)
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def changed(inside, names):
    """Yield the names among these that functions change or rebind."""
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
    """Return the names of a module's mutable state."""
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
    """Return the mutable state of the whole package."""
    with uncollected():
        return {
            f"{path.relative_to(PACKAGE).as_posix()}: {name}"
            for path in PACKAGE.rglob("*.py")
            for name in state_of(path.read_text(encoding="utf-8"))
        }


@pytest.mark.timeout(180)
def test_mutable_state_of_modules_is_listed_with_its_reason():
    assert state() == ALLOWED.keys()


@pytest.mark.parametrize("cell", CELLS)
def test_calls_do_not_change_the_state_of_modules(cell):
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
def test_mutable_state_is_distinguished_from_tables(source, names):
    assert state_of(source) == names
