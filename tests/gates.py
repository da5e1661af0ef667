"""Gates on the structure of the tree: layers, imports, purity, cycles, sizes, words.

Each gate is a function from modules to findings. `test_tree.py` applies them to the
package, `test_gates.py` proves on small samples that each of them can fail.
"""

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from sources import PACKAGE, Import, Module, base_of, imports_of, known_names

LAYERS: Final[tuple[tuple[str, ...], ...]] = (
    ("_package", "errors", "limits", "versions"),
    ("wire",),
    ("types",),
    ("protocol", "auth"),
    ("transports",),
    ("client", "server"),
    ("config", "exporters", "group", "testing", "tools"),
    ("gateway", "sync"),
    ("",),
    ("bench", "check"),
    ("cli",),
    ("__main__",),
)
"""From the lowest layer up; L0 to L5 of the architecture, L4 and L6 in several rows.

The empty name is the package itself, whose public names the applications may use.
"""

PURE: Final = (
    *("_package", "auth", "config.document", "config.schema"),
    *("config.url_deny_list", "errors", "exporters"),
    *("gateway.merging", "gateway.selection", "gateway.session_ids"),
    *("gateway.splicing", "gateway.translation", "group.backoff", "limits", "protocol"),
    *("server.fair_pool", "tools.catalog", "tools.names", "tools.results"),
    *("tools.rules", "tools.transforms", "transports.http.h1", "types"),
    *("versions", "wire"),
)
"""Modules and packages without I/O, clock, random numbers, logging or event loop."""

SIDEWAYS_LAYERS: Final = frozenset({0, 6})
"""Layers of modules in the package's root folder, which may import each other."""

MAX_FILE_LINES: Final = 1_200
MAX_FUNCTION_LINES: Final = 60
MAX_P95_FUNCTION_LINES: Final = 30

IMPURE: Final[Mapping[str, str]] = {
    "asyncio": "shells run loops",
    "concurrent": "shells run threads",
    "ctypes": "shells talk to the system",
    "http": "shells do I/O",
    "logging": "shells report",
    "multiprocessing": "shells start processes",
    "os": "shells talk to the system",
    "pathlib": "shells touch files",
    "random": "chance is passed in",
    "secrets": "chance is passed in",
    "select": "shells do I/O",
    "selectors": "shells do I/O",
    "shutil": "shells touch files",
    "signal": "shells talk to the system",
    "socket": "shells do I/O",
    "sqlite3": "shells do I/O",
    "ssl": "shells do I/O",
    "subprocess": "shells start processes",
    "tempfile": "shells touch files",
    "threading": "shells run threads",
    "time": "the time is passed in",
}
"""Modules that a pure layer must not import, and why."""

IMPURE_FUNCTIONS: Final[Mapping[str, str]] = {
    "input": "shells do I/O",
    "open": "shells touch files",
    "print": "shells report",
    "uuid1": "chance is passed in",
    "uuid4": "chance is passed in",
}

IMPURE_METHODS: Final[Mapping[str, str]] = {
    "now": "the time is passed in",
    "today": "the time is passed in",
    "utcnow": "the time is passed in",
    "uuid1": "chance is passed in",
    "uuid4": "chance is passed in",
}
"""Calls that a pure layer must not make, and why: by name alone, and as `x.name`."""

RUNTIME: Final = frozenset(
    {"anyio", "attrs", "httptools", "httpx", "msgspec", "orjson"}
)
"""The distributions that are always installed; `attr` is another name of `attrs`."""

MSGSPEC: Final = (f"{PACKAGE}.server.authoring.", f"{PACKAGE}.auth.records")
"""Places that use msgspec; a client imports it on use only, for stored credentials."""

PURE_RUNTIME: Final = frozenset({"attrs", "httptools", "msgspec", "orjson"})

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "gevent": ("mcpwire.bench.locust",),
    "hdrh": ("mcpwire.bench.histogram",),
    "jinja2": ("mcpwire.check.pages", "mcpwire.bench"),
    "joserfc": ("mcpwire.auth.jwt",),
    "jsonschema_rs": ("mcpwire.protocol.output_validation", "mcpwire.check.schemas"),
    "locust": ("mcpwire.bench.locust",),
    "uvicorn": ("mcpwire.server.http.uvicorn",),
    "yaml": ("mcpwire.protocol.skills",),
}
"""Import name of an optional distribution -> the only places that may use it."""


class Finding(NamedTuple):
    """One breach: the gate, its subject (a waiver names both), and a sentence."""

    gate: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"[{self.gate}] {self.where}: {self.what}"


# --- layers ----------------------------------------------------------------------


def unit_of(name: str) -> tuple[int, str] | None:
    """Return layer and unit of a module of ours; None if no layer contains it."""
    inner = name.removeprefix(PACKAGE).removeprefix(".")
    best: tuple[int, str] | None = None
    for level, units in enumerate(LAYERS):
        for unit in units:
            matches = inner == unit or (unit and inner.startswith(f"{unit}."))
            if matches and (best is None or len(unit) > len(best[1])):
                best = level, unit
    return best


def _allowed(importer: tuple[int, str], target: tuple[int, str]) -> bool:
    level, unit = importer
    if target[0] != level:
        return target[0] < level
    if unit == target[1]:
        return True
    return level in SIDEWAYS_LAYERS


def check_layers(modules: list[Module]) -> Iterator[Finding]:
    """Imports go down, or sideways within the same folder."""
    known = known_names(modules)
    for module in modules:
        place = unit_of(module.name)
        if place is None:
            yield Finding("layers", module.name, "stands in no layer")
            continue
        for target, line, _ in imports_of(module, known):
            if target.split(".")[0] != PACKAGE or target == f"{PACKAGE}.__version__":
                continue
            aim = unit_of(target)
            if aim is None and target.removeprefix(f"{PACKAGE}.").count(".") == 0:
                aim = unit_of(PACKAGE)  # a name of the root, such as mcpwire.Client
            if aim is None or not _allowed(place, aim):
                yield Finding(
                    "layers",
                    f"{module.name} -> {target}",
                    f"line {line} imports upwards or across",
                )


def is_pure(name: str) -> bool:
    """Return whether a module of ours must be pure: it or its package is in `PURE`."""
    return f"{name}.".startswith(tuple(f"{PACKAGE}.{each}." for each in PURE))


def pure_files() -> str:
    """Return the pure modules as file patterns for coverage."""
    places = [f"{PACKAGE}/{each.replace('.', '/')}" for each in PURE]
    return ",".join(f"{place}.py,{place}/*" for place in places)


def check_pure_names(modules: list[Module]) -> Iterator[Finding]:
    """Each name in `PURE` is the name of a module or a package."""
    known = known_names(modules)
    for each in PURE:
        if f"{PACKAGE}.{each}" not in known:
            yield Finding("purity", each, "no module of this name")


def check_purity(modules: list[Module]) -> Iterator[Finding]:
    """Pure modules use no I/O, no await, no clock, no random numbers and no logging."""
    known = known_names(modules)
    for module in modules:
        if not is_pure(module.name):
            continue
        for target, line, _ in imports_of(module, known):
            if reason := IMPURE.get(target.split(".")[0]):
                yield Finding(
                    "purity", module.name, f"line {line} imports {target}: {reason}"
                )
        yield from _impure_code(module)


def _impure_code(module: Module) -> Iterator[Finding]:
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.AsyncFunctionDef, ast.Await)):
            yield Finding("purity", module.name, f"line {node.lineno} awaits")
        elif isinstance(node, ast.Call):
            name, table = getattr(node.func, "id", ""), IMPURE_FUNCTIONS
            if isinstance(node.func, ast.Attribute):
                name, table = node.func.attr, IMPURE_METHODS
            if reason := table.get(name):
                yield Finding(
                    "purity", module.name, f"line {node.lineno} calls {name}: {reason}"
                )


# --- third parties ---------------------------------------------------------------


def _distribution(target: str) -> str | None:
    top = target.partition(".")[0]
    if top in sys.stdlib_module_names or top == PACKAGE:
        return None
    return "attrs" if top == "attr" else top


def _extra_breach(module: Module, item: Import, places: tuple[str, ...]) -> str | None:
    if not any(f"{module.name}.".startswith(f"{place}.") for place in places):
        return f"only {' and '.join(places)} may use it"
    return "an extra is imported on use only" if item.when == "module" else None


def _runtime_breach(module: Module, item: Import, distribution: str) -> str | None:
    if distribution == "orjson" and module.name != f"{PACKAGE}.wire.json":
        return f"only {PACKAGE}.wire.json may use it"
    if distribution == "msgspec" and not module.name.startswith(MSGSPEC):
        return f"only {' and '.join(MSGSPEC)} may use it"
    if distribution == "httpx" and item.when == "module":
        return "it is heavy: import it on use"
    if is_pure(module.name) and distribution not in PURE_RUNTIME:
        return "a pure module has no use for it"
    return None


def _third_party_breach(module: Module, item: Import) -> str | None:
    distribution = _distribution(item.target)
    if distribution is None:
        return None
    if places := EXTRAS.get(distribution):
        return _extra_breach(module, item, places)
    if distribution in RUNTIME:
        return _runtime_breach(module, item, distribution)
    return "it is no runtime dependency"


def check_third_parties(modules: list[Module]) -> Iterator[Finding]:
    """Only runtime dependencies, each in its places; extras on use only."""
    known = known_names(modules)
    for module in modules:
        for item in imports_of(module, known):
            if breach := _third_party_breach(module, item):
                yield Finding(
                    "third parties",
                    f"{module.name} -> {item.target.split('.')[0]}",
                    f"line {item.line}: {breach}",
                )


def check_dynamic_imports(modules: list[Module]) -> Iterator[Finding]:
    """Only `__init__` modules import by computed names, which no gate can read."""
    for module in modules:
        if module.is_package or not re.search(
            "import_module|__import__", module.source
        ):
            continue
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in {"import_module", "__import__"}:
                yield Finding(
                    "dynamic imports", module.name, f"line {node.lineno} calls {name}"
                )


def check_private_names(modules: list[Module]) -> Iterator[Finding]:
    """A name that another module imports has no underscore (a module may have one)."""
    known = known_names(modules)
    for module in modules:
        for node, _ in module.statements:
            if not isinstance(node, ast.ImportFrom):
                continue
            base = base_of(module, node)
            for alias in node.names:
                is_private = alias.name.startswith("_") and alias.name[:2] != "__"
                if is_private and base in known and f"{base}.{alias.name}" not in known:
                    yield Finding(
                        "private names",
                        f"{module.name} -> {base}.{alias.name}",
                        f"line {node.lineno} imports a private name",
                    )


# --- cycles ----------------------------------------------------------------------


def check_cycles(modules: list[Module]) -> Iterator[Finding]:
    known = known_names(modules)
    graph = {
        module.name: sorted(
            {
                item.target
                for item in imports_of(module, known)
                if item.when == "module" and item.target in known
            }
        )
        for module in modules
    }
    done: set[str] = set()
    for start in graph:
        trail: list[str] = []
        if cycle := _find_circle(start, graph, trail, done):
            yield Finding("cycles", " -> ".join(cycle), "modules import in a circle")


def _find_circle(
    name: str, graph: Mapping[str, list[str]], trail: list[str], done: set[str]
) -> list[str] | None:
    if name in trail:
        return [*trail[trail.index(name) :], name]
    if name in done:
        return None
    trail.append(name)
    for target in graph[name]:
        if cycle := _find_circle(target, graph, trail, done):
            return cycle
    trail.pop()
    done.add(name)
    return None


# --- sizes -----------------------------------------------------------------------


def check_file_sizes(modules: list[Module]) -> Iterator[Finding]:
    for module in modules:
        lines = module.source.count("\n")
        if lines > MAX_FILE_LINES:
            yield Finding("file size", module.path, f"{lines} lines")


def _function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def check_function_sizes(modules: list[Module]) -> Iterator[Finding]:
    """No function is longer than a screen, without its docstring."""
    for module in modules:
        for node, _ in module.statements:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = _function_lines(node)
                if lines > MAX_FUNCTION_LINES:
                    yield Finding(
                        "function size",
                        f"{module.name}.{node.name}",
                        f"{lines} lines without its docstring",
                    )


def check_usual_function_size(modules: list[Module]) -> Iterator[Finding]:
    """Of a hundred functions, 95 are shorter than half a screen."""
    lengths = sorted(
        _function_lines(node)
        for module in modules
        for node, _ in module.statements
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    p95 = lengths[-len(lengths) // 20 - 1] if lengths else 0
    if p95 >= MAX_P95_FUNCTION_LINES:
        yield Finding("function size", PACKAGE, f"the 95th percentile is {p95} lines")


# --- classes ---------------------------------------------------------------------


def _base_names(node: ast.ClassDef) -> list[str]:
    found = []
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        found.append(getattr(plain, "attr", getattr(plain, "id", "")))
    return found


def _is_abstract(node: ast.ClassDef) -> bool:
    """Return whether a class is meant as a base class: an interface or an error."""
    interfaces = {"ABC", "BaseException", "Exception", "Protocol"}
    return node.name.endswith("Error") or not interfaces.isdisjoint(_base_names(node))


def check_class_in_one_file(modules: list[Module]) -> Iterator[Finding]:
    """A class is in one file: no only subclass in another file, and no stubs."""
    places: dict[str, list[tuple[str, ast.ClassDef]]] = {}
    for module in modules:
        for node in module.classes:
            places.setdefault(node.name, []).append((module.path, node))
            if _has_stubs(node):
                where = f"{module.path} {node.name}"
                yield Finding("class in one file", where, "has stubs for typing")
    for base, ((path, name), *more) in _children(places).items():
        (home, node), *others = places[base]
        if not (more or others or home == path or _is_abstract(node)):
            what = f"its only subclass is {name} in {path}"
            yield Finding("class in one file", f"{home} {base}", what)


def _children(
    places: Mapping[str, list[tuple[str, ast.ClassDef]]],
) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for name, defined in places.items():
        for path, node in defined:
            for base in _base_names(node):
                if base in places and base != name:
                    found.setdefault(base, []).append((path, name))
    return found


def _has_stubs(node: ast.ClassDef) -> bool:
    """Return whether a class declares members of its other parts for typing."""
    guards = [part.test for part in node.body if isinstance(part, ast.If)]
    return any("TYPE_CHECKING" in ast.unparse(guard) for guard in guards)


# --- private parts of others -----------------------------------------------------

OVERRIDES: Final = frozenset({"_asyncio_future_blocking", "_start_asgi_task"})
"""Private names of asyncio and uvicorn that a class of ours could define."""

DOCUMENTED: Final = frozenset({"_current_frames", "_exit"})
"""Names with an underscore that the standard library documents."""

ACCESSORS: Final = frozenset({"delattr", "getattr", "hasattr", "setattr"})


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and len(name) > 1


def defined_names(tree: ast.AST, *, only_of_self: bool = False) -> Iterator[str]:
    """Yield the names a module defines or sets: functions, classes, attributes, slots.

    With `only_of_self`, setting `x._name` defines nothing.
    """
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute):
            is_defined = _is_of_self(node) or not only_of_self
            if is_defined and isinstance(node.ctx, ast.Store):
                yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            yield from ast.literal_eval(node.value)


def _is_of_self(node: ast.Attribute) -> bool:
    return getattr(node.value, "id", "") in {"self", "cls"}


def _private_uses(module: Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each private attribute that is not one of `self`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and not _is_of_self(node):
            if not isinstance(node.value, ast.Call):  # such as super()
                yield node.lineno, node.attr
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Attribute)):
            name = getattr(node, "attr", getattr(node, "name", ""))
            if name in OVERRIDES:
                yield node.lineno, f"{name} of its base"
        elif isinstance(node, ast.ImportFrom):
            if not base_of(module, node).startswith(PACKAGE):
                yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            name = getattr(node.args[1], "value", "")
            if getattr(node.func, "id", "") in ACCESSORS and isinstance(name, str):
                yield node.lineno, name


def check_private_parts(modules: list[Module]) -> Iterator[Finding]:
    """Private names stay in their module; only public names of others are used."""
    for module in modules:
        own = {*defined_names(module.tree, only_of_self=True), *DOCUMENTED}
        for line, name in _private_uses(module):
            if _is_private(name) and name not in own:
                what = f"line {line} uses {name}"
                yield Finding("private parts of others", module.path, what)


# --- error texts -----------------------------------------------------------------

BANNED_FORMS: Final[Mapping[str, str]] = {
    r"\bwho(ever|m|se)?\b": "name the subject",
    r"\b(is|are|was|were) (no|none)\b": "say `is not a ...`",
    r"\bnobody\b": "name the subject",
    r"^what\b|\bwhat (is|was|came|comes)\b|\bwhatever\b": "a clause is no subject",
    r"\b(told|owe[sd]?|mended)\b": "use the term of the field",
}
"""Forms that no error text may contain, and what to write instead."""


def _text_of(node: ast.expr) -> str:
    """Return the literal text of an expression, without interpolated values."""
    parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return "".join(part for part in parts if isinstance(part, str))


def _exceptions(modules: Iterable[Module]) -> set[str]:
    """Return the names of error classes: ours and those of Python."""
    classes = [node for m in modules for node in m.classes]
    found = {name for name in dir(builtins) if name.endswith(("Error", "Exception"))}
    count = 0
    while count < len(found):  # until no class derives from those found
        count = len(found)
        found.update(c.name for c in classes if found.intersection(_base_names(c)))
    return found


def check_error_texts(modules: list[Module]) -> Iterator[Finding]:
    errors = _exceptions(modules)
    for module in modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call):
                continue
            if getattr(node.func, "attr", getattr(node.func, "id", "")) not in errors:
                continue
            for argument in (*node.args, *(each.value for each in node.keywords)):
                text = _text_of(argument)
                for form, advice in BANNED_FORMS.items():
                    if found := re.search(form, text, re.IGNORECASE):
                        what = f"line {node.lineno} says {found.group()!r}: {advice}"
                        yield Finding("error texts", module.path, what)


def unwaived(
    findings: Iterable[Finding], waivers: Mapping[tuple[str, str], str]
) -> list[str]:
    """Return the findings without a waiver, and the waivers without a finding."""
    found = list(findings)
    keys = {(finding.gate, finding.where) for finding in found}
    left = [
        str(finding)
        for finding in found
        if (finding.gate, finding.where) not in waivers
    ]
    for key, reason in waivers.items():
        if key not in keys:
            left.append(f"[waivers] {key}: nothing needs it any more")
        elif not reason.strip():
            left.append(f"[waivers] {key}: has no reason")
    return left


if __name__ == "__main__":
    sys.stdout.write(f"{pure_files()}\n")
