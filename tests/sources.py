"""Parsed source files and their imports, read without running them."""

import ast
import contextlib
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = "mcpwire"

PATCHING: Final = frozenset({"mcpwire.bench.locust"})
"""Modules that patch the standard library with gevent on import: tests skip them."""


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable garbage collection while syntax trees are created and used.

    They have no cycles and millions of nodes: each collection would traverse all of
    them again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class Module:
    """One parsed source file."""

    name: str
    path: str
    source: str
    tree: ast.Module
    is_package: bool

    @classmethod
    def parse(cls, name: str, source: str, *, path: str = "", is_package: bool = False):
        path = path or name.replace(".", "/") + ".py"
        return cls(name, path, source, ast.parse(source), is_package)

    @cached_property
    def statements(self) -> list[tuple[ast.stmt, str]]:
        """Every statement, with the time it runs: "module", "function" or "typing"."""
        return list(statements(self.tree.body, "module"))

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """Every class, however deep."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]


class Import(NamedTuple):
    """One imported module, where, and when: "module", "function" or "typing"."""

    target: str
    line: int
    when: str


def read(root: Path, folder: str) -> Iterator[Module]:
    """Parse every source file below a folder of the checkout, one after the other."""
    for path in sorted((root / folder).rglob("*.py")):
        relative = path.relative_to(root)
        parts = list(relative.with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        source = path.read_text(encoding="utf-8")
        yield Module.parse(name, source, path=str(relative), is_package=is_package)


def _is_typing_guard(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def statements(body: Iterable[ast.stmt], when: str) -> Iterator[tuple[ast.stmt, str]]:
    """Yield every statement, however deep, and when it runs."""
    for node in body:
        yield node, when
        inner = when
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = "function"
        is_guard = isinstance(node, ast.If) and _is_typing_guard(node.test)
        yield from statements(
            getattr(node, "body", ()), "typing" if is_guard else inner
        )
        for part in ("orelse", "finalbody"):
            yield from statements(getattr(node, part, ()), inner)
        for part in ("handlers", "cases"):
            for branch in getattr(node, part, ()):
                yield from statements(branch.body, inner)


def base_of(module: Module, node: ast.ImportFrom) -> str:
    """Return what a `from ... import` imports from, dots resolved."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + module.is_package
    base = ".".join(parts[:keep])
    return f"{base}.{node.module}" if node.module else base


def imports_of(module: Module, known: frozenset[str]) -> list[Import]:
    """Return every import of a module, at any depth."""
    found = []
    for node, when in module.statements:
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno, when) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = base_of(module, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                # The root module has its own values: those keep their name.
                target = full if full in known or base == PACKAGE else base
                found.append(Import(target, node.lineno, when))
    return found


def known_names(modules: Iterable[Module]) -> frozenset[str]:
    """Return the dotted names of the modules."""
    return frozenset(module.name for module in modules)
