"""The gates on the shape of the tree: layers, imports, purity, cycles, sizes.

Each gate is a function from modules to findings. `test_tree.py` applies them to the
package, `test_gates.py` shows on small samples that each of them can fail.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from sources import PACKAGE, Import, Module, base_of, imports_of, known_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LAYERS: Final[tuple[tuple[str, ...], ...]] = (
    ("_version", "errors", "limits", "versions"),
    ("wire",),
    ("types",),
    ("protocol", "auth"),
    ("transports",),
    ("sync",),
    ("client", "sync.client", "server"),
    ("config", "group", "sync.group", "testing", "tools"),
    ("gateway",),
    ("",),
    ("bench", "check"),
    ("cli",),
    ("__main__",),
)
"""From the floor up; L0 to L5 of the architecture, its L4 and L6 in storeys.

The blocking shell stands on the asyncio one: it uses what knows no loop there, and a
server in memory runs on asyncio whoever talks to it. That it loads no loop otherwise is
for `tests/sync` to show. The package `sync` itself only names what `sync.client` has.

The empty name is the package itself, whose public names the applications may use.
"""

PURE_LAYERS: Final = 4
"""The first so many layers do no I/O and know no clock, chance, log or loop."""

SIDEWAYS_LAYERS: Final = frozenset({0, 7})
"""Layers of modules beside each other in the package's own folder."""

MAX_FILE_LINES: Final = 600
MAX_FUNCTION_LINES: Final = 50
MAX_FOLDER_MODULES: Final = 12

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
"""What a pure layer never imports, and why."""

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
"""What a pure layer never calls, and why: by name alone, and as `x.name`."""

RUNTIME: Final = frozenset({"anyio", "attrs", "httptools", "httpx", "orjson"})
"""The distributions that are always there; `attr` is another name of `attrs`."""

PURE_RUNTIME: Final = frozenset({"attrs", "httptools", "orjson"})

EXTRAS: Final[Mapping[str, str]] = {
    "joserfc": "mcpwire.auth.exchange",
    "jsonschema_rs": "mcpwire.protocol.results.output_schema",
    "msgspec": "mcpwire.server.authoring.hints",
    "rich": "mcpwire.cli",
    "uvicorn": "mcpwire.server.http.serving",
    "yaml": "mcpwire.protocol.results.frontmatter",
}
"""Import name of an optional distribution -> the only place that may use it."""


class Finding(NamedTuple):
    """One breach: the gate, what it is about (a waiver names both), and a sentence."""

    gate: str
    where: str
    what: str

    def __str__(self) -> str:
        """Return one line."""
        return f"[{self.gate}] {self.where}: {self.what}"


# --- layers ----------------------------------------------------------------------


def unit_of(name: str) -> tuple[int, str] | None:
    """Return layer and unit of a module of ours; None where it stands in no layer."""
    inner = name.removeprefix(PACKAGE).removeprefix(".")
    if inner == "sync":
        inner = "sync.group"
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


def check_purity(modules: list[Module]) -> Iterator[Finding]:
    """Layers 0 to 3 do no I/O, await nothing and know no clock, chance or log."""
    known = known_names(modules)
    for module in modules:
        place = unit_of(module.name)
        if place is None or place[0] >= PURE_LAYERS:
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


def _extra_breach(module: Module, item: Import, place: str) -> str | None:
    if not f"{module.name}.".startswith(f"{place}."):
        return f"only {place} may use it"
    return "an extra is imported on use only" if item.when == "module" else None


def _runtime_breach(module: Module, item: Import, distribution: str) -> str | None:
    if distribution == "orjson" and module.name != f"{PACKAGE}.wire.json":
        return f"only {PACKAGE}.wire.json may use it"
    if distribution == "httpx" and item.when == "module":
        return "it is heavy: import it on use"
    unit = unit_of(module.name)
    is_pure = unit is not None and unit[0] < PURE_LAYERS
    if is_pure and distribution not in PURE_RUNTIME:
        return "a pure layer has no use for it"
    return None


def _third_party_breach(module: Module, item: Import) -> str | None:
    distribution = _distribution(item.target)
    if distribution is None:
        return None
    if place := EXTRAS.get(distribution):
        return _extra_breach(module, item, place)
    if distribution in RUNTIME:
        return _runtime_breach(module, item, distribution)
    return "it is no runtime dependency"


def check_third_parties(modules: list[Module]) -> Iterator[Finding]:
    """Only runtime dependencies, each where it belongs; extras on use only."""
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
    """Imports by computed name, which no gate can read, stand in `__init__` only."""
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
    """What is imported while modules load forms no circle."""
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
        if circle := _find_circle(start, graph, trail, done):
            yield Finding("cycles", " -> ".join(circle), "modules import in a circle")


def _find_circle(
    name: str, graph: Mapping[str, list[str]], trail: list[str], done: set[str]
) -> list[str] | None:
    if name in trail:
        return [*trail[trail.index(name) :], name]
    if name in done:
        return None
    trail.append(name)
    for target in graph[name]:
        if circle := _find_circle(target, graph, trail, done):
            return circle
    trail.pop()
    done.add(name)
    return None


# --- sizes -----------------------------------------------------------------------


def check_file_sizes(modules: list[Module]) -> Iterator[Finding]:
    """No file is longer than anyone reads."""
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
    """No function is longer than a screen, its docstring left out."""
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


def check_folder_sizes(modules: list[Module]) -> Iterator[Finding]:
    """No folder holds more modules than one takes in at a glance."""
    counts: dict[str, int] = {}
    for module in modules:
        folder = module.path.rpartition("/")[0]
        counts[folder] = counts.get(folder, 0) + (not module.is_package)
    for folder, count in sorted(counts.items()):
        if count > MAX_FOLDER_MODULES:
            yield Finding("folder size", folder, f"{count} modules")


def unwaived(
    findings: Iterable[Finding], waivers: Mapping[tuple[str, str], str]
) -> list[str]:
    """Return the findings no waiver names, and the waivers that name no finding."""
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
