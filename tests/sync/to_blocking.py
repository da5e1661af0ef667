"""Rewrites asyncio source as blocking source; knows Python's syntax, no file of ours.

The syntax tree says what is to change and where; the text is changed in those places
only, so comments and line breaks survive. What has no blocking form is refused with
file and line, and so is every word of the asyncio world that is left at the end.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SYNTAX: Final[Mapping[str, str]] = {
    "AsyncGenerator": "Generator",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aiter": "iter",
    "anext": "next",
    "asynccontextmanager": "contextmanager",
}
"""Names of the language and its library, as functions, attributes and imports."""

WRAPPERS: Final = frozenset({"Awaitable", "Coroutine"})
"""Annotations that vanish: what they end with is what a blocking function returns."""

LEFT_OVER: Final = re.compile(
    r"async|await|\basyncio\b|coroutine|aclose|\ba(?:next|iter)\b|isawaitable"
    r"|create_task|event loop|\btasks?\b(?!/)",
    re.IGNORECASE,
)
"""What must not stand in blocking source (`tasks/get` is a method of the protocol)."""

TASK: Final = re.compile(r"tasks?", re.IGNORECASE)


class UntranslatableError(Exception):
    """Something has no blocking form; the message names file and line."""


@dataclass(frozen=True)
class Tables:
    """What is particular to a code base."""

    modules: Mapping[str, str] = field(default_factory=dict)
    """Module -> what takes its place; the longest prefix counts."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Imported names that are called otherwise there."""

    asyncio: Mapping[str, str] = field(default_factory=dict)
    """``asyncio`` attribute -> dotted name that takes its place (imported as it is)."""

    guarded: tuple[str, ...] = ()
    """Packages whose modules must stand in `modules`; one may stand for itself."""

    words: Sequence[tuple[str, str]] = ()
    """Texts within docstrings and comments, replaced in this order."""

    left_over: frozenset[str] = frozenset()
    """Lines that may hold a word of `LEFT_OVER` all the same."""

    of_tasks: frozenset[str] = frozenset()
    """Sources in which tasks are the protocol's: they stay."""


def to_blocking(
    source: str,
    path: str,
    tables: Tables,
    *,
    texts: Sequence[tuple[str, str, str]] = (),
    patches: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the blocking form of a module's source, not yet formatted.

    Args:
        source: The asyncio source.
        path: Its path, for errors.
        tables: What is particular to the code base.
        texts: (qualified name, empty for the module; text within its docstring or the
            docs of its attributes, white space aside; what takes its place).
        patches: (text of the source, what takes its place), before anything else.

    Raises:
        UntranslatableError: Something has no blocking form, or an entry of `texts` or
            `patches` does not match exactly once.
    """
    for old, new in patches:
        if source.count(old) != 1:
            raise UntranslatableError(
                f"{path}: a patch must match once, it matches {source.count(old)} "
                f"times: {old!r}"
            )
        source = source.replace(old, new)
    rewriter = _Rewriter(source, path, tables, texts)
    result = rewriter.run()
    may_stay = TASK if path in tables.of_tasks else None
    left = [
        f"line {number} of the outcome still says: {line.strip()}"
        for number, line in enumerate(result.splitlines(), 1)
        if _is_left(line, may_stay) and line.strip() not in tables.left_over
    ]
    if left:
        raise UntranslatableError(f"{path}: " + f"\n{path}: ".join(left))
    return result


def _is_left(line: str, may_stay: re.Pattern[str] | None) -> bool:
    return any(
        may_stay is None or may_stay.fullmatch(word) is None
        for word in LEFT_OVER.findall(line)
    )


class _Rewriter(ast.NodeVisitor):
    """Collects edits over one module; offsets count bytes of UTF-8, as `ast` does."""

    def __init__(
        self,
        source: str,
        path: str,
        tables: Tables,
        texts: Sequence[tuple[str, str, str]],
    ) -> None:
        self.data = source.encode()
        self.path = path
        self.tables = tables
        self.texts = texts
        self.used: set[tuple[str, str]] = set()
        self.tree = ast.parse(source)
        self.lines = [0]
        for line in self.data.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.edits: dict[tuple[int, int], bytes] = {}
        self.scope: list[str] = []
        self.imported: set[str] = set()

    def run(self) -> str:
        self.visit(self.tree)
        self.reword_comments()
        for name, old, _ in self.texts:
            if (name, old) not in self.used:
                self.refuse(1, f"no text of {name or 'the module'!r} says {old!r}")
        result = bytearray(self.data)
        for (start, end), text in sorted(self.edits.items(), reverse=True):
            result[start:end] = text
        return self.with_imports(result.decode())

    def with_imports(self, source: str) -> str:
        if not self.imported:
            return source
        anchor = "from __future__ import annotations\n"
        lines = "".join(f"import {name}\n" for name in sorted(self.imported))
        if anchor not in source:
            self.refuse(1, f"there is no {anchor.strip()!r} to put imports behind")
        return source.replace(anchor, f"{anchor}\n{lines}", 1)

    def refuse(self, where: int | ast.AST, why: str) -> None:
        line = where if isinstance(where, int) else getattr(where, "lineno", 1)
        raise UntranslatableError(f"{self.path}:{line}: {why}")

    # Places...

    def start(self, node: ast.AST) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def replace(self, start: int, end: int, text: str) -> None:
        self.edits[start, end] = text.encode()

    def drop(self, pattern: bytes, at: int) -> None:
        match = re.compile(pattern).match(self.data, at)
        assert match is not None, self.data[at : at + 40]
        self.replace(match.start(), match.end(), "")

    # Definitions and statements...

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.append(node.name)
        self.generic_visit(node)
        self.scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in SYNTAX:
            match = re.compile(rb"(?:async\s+)?def\s+").match(
                self.data, self.start(node)
            )
            assert match is not None
            at = match.end()
            self.replace(at, at + len(node.name), SYNTAX[node.name])
        if node.name == "__await__":
            self.refuse(node, "what is awaited has no blocking form")
        self.scope.append(node.name)
        self.generic_visit(node)
        self.scope.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.drop(rb"async\s+", self.start(node))
        self.visit_FunctionDef(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self.drop(rb"async\s+", self.start(node))
        self.generic_visit(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> None:
        self.drop(rb"async\s+", self.start(node))
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        if node.is_async:
            match = re.compile(rb"async(\s+for[\s(]+)$").search(
                self.data[: self.start(node.target)]
            )
            assert match is not None
            self.replace(match.start(), match.start(1) + 1, "")
        self.generic_visit(node)

    def visit_Await(self, node: ast.Await) -> None:
        start, end = self.start(node), self.end(node)
        self.drop(rb"await\s*", start)
        is_grouped = (
            re.search(rb"[^\w)\]]\(\s*$", self.data[:start])
            and re.match(rb"\s*\)", self.data[end:])
            and isinstance(node.value, (ast.Call, ast.Name, ast.Attribute))
        )
        if is_grouped:
            opening = self.data.rindex(b"(", 0, start)
            closing = self.data.index(b")", end)
            self.replace(opening, opening + 1, "")
            self.replace(closing, closing + 1, "")
        self.generic_visit(node)

    # Names...

    def renamed(self, name: str) -> str | None:
        return SYNTAX.get(name) or self.tables.names.get(name)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == "asyncio":
            self.refuse(node, "asyncio itself has no blocking form")
        new = self.renamed(node.id)
        if new is not None:
            self.replace(self.start(node), self.end(node), new)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id == "asyncio":
            new = self.tables.asyncio.get(node.attr)
            if new is None:
                self.refuse(node, f"asyncio.{node.attr} has no blocking form")
                return
            if "." in new:
                self.imported.add(new.rpartition(".")[0])
            self.replace(self.start(node), self.end(node), new)
            return
        if node.attr in SYNTAX:
            end = self.end(node)
            self.replace(end - len(node.attr), end, SYNTAX[node.attr])
        self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        # Before Python 3.12 the tree does not say where the parts of one stand.
        for part in ast.walk(node):
            name = getattr(part, "id", getattr(part, "attr", ""))
            if isinstance(part, ast.Await) or name == "asyncio" or self.renamed(name):
                self.refuse(node, "put it into a variable before the f-string")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in WRAPPERS:
            inner = node.slice.elts[-1] if hasattr(node.slice, "elts") else node.slice
            self.replace(self.start(node), self.start(inner), "")
            self.replace(self.end(inner), self.end(node), "")
            self.visit(inner)
            return
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name == "asyncio" and alias.asname is None and len(node.names) < 2:
                at = self.lines[node.lineno]  # the whole line goes
                self.replace(self.lines[node.lineno - 1], at, "")
            elif alias.name.partition(".")[0] in {"asyncio", "anyio"}:
                self.refuse(node, f"{alias.name} has no blocking form")
            elif self.module(alias.name, node) != alias.name:
                self.refuse(node, f"import names from {alias.name}, not itself")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            self.refuse(node, "imports name their module in full")
            return
        new = self.module(node.module, node)
        at = self.start(node) + len("from ")
        if new != node.module:
            self.replace(at, at + len(node.module), new)
        kept = [alias for alias in node.names if alias.name not in WRAPPERS]
        if not kept:
            self.refuse(node, "nothing of this import is left")
        if len(kept) < len(node.names):
            self.replace(
                self.start(node.names[0]),
                self.end(node.names[-1]),
                ", ".join(map(self.alias, kept)),
            )
            return
        for alias in kept:
            self.replace(self.start(alias), self.end(alias), self.alias(alias))

    def alias(self, alias: ast.alias) -> str:
        name = self.renamed(alias.name) or alias.name
        return f"{name} as {alias.asname}" if alias.asname else name

    def module(self, name: str, node: ast.AST) -> str:
        """Return what takes the place of a module."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            prefix = ".".join(parts[:length])
            if prefix in self.tables.modules:
                return ".".join([self.tables.modules[prefix], *parts[length:]])
        if parts[0] in {"asyncio", "anyio"}:
            self.refuse(node, f"{name} has no blocking form")
        for package in self.tables.guarded:
            if f"{name}.".startswith(f"{package}."):
                self.refuse(node, f"the table of modules does not know {name}")
        return name

    # Texts...

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            start, end = self.start(value), self.end(value)
            old = self.data[start:end].decode()
            new = self.reword(self.retell(old, " " * value.col_offset))
            if new != old:
                self.replace(start, end, new)
            return
        self.generic_visit(node)

    def retell(self, text: str, indent: str) -> str:
        """Replace what the table says of the docstrings of this scope."""
        scope = ".".join(self.scope)
        for name, old, new in self.texts:
            if name != scope:
                continue
            pattern = r"\s+".join(re.escape(word) for word in old.split())
            if new == "":  # a sentence that goes takes the space behind it along
                pattern += r"\s*"
            found = list(re.finditer(pattern, text))
            if len(found) == 1:
                self.used.add((name, old))
                told = f"\n{indent}".join(new.split("\n"))
                text = text[: found[0].start()] + told + text[found[0].end() :]
        return text

    def reword(self, text: str) -> str:
        for old, new in self.tables.words:
            text = text.replace(old, new)
        return text

    def reword_comments(self) -> None:
        for token in _comments(self.data):
            new = self.reword(token.string)
            if new != token.string:
                # tokenize counts characters, `ast` counts bytes.
                line = self.data[self.lines[token.start[0] - 1] :].decode()
                start = self.lines[token.start[0] - 1] + len(
                    line[: token.start[1]].encode()
                )
                self.replace(start, start + len(token.string.encode()), new)


def _comments(data: bytes) -> Iterator[tokenize.TokenInfo]:
    reader = io.BytesIO(data).readline
    return (
        token for token in tokenize.tokenize(reader) if token.type == tokenize.COMMENT
    )
