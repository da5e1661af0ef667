"""Makes the blocking classes of `mcpwire/sync`: one line for each method.

Signatures and docstrings are those of the asyncio classes, which are the only source of
both. ``--write`` writes the modules; without it a difference is an error.
"""

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SYNC: Final = ROOT / "mcpwire/sync"

HEADER: Final = '''\
# Made by `python tests/sync/generate.py --write`: change the asyncio classes instead.
"""{title}."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

{runtime}

if TYPE_CHECKING:
{imports}
'''

MODULES: Final = {
    "_generated.py": (
        "The blocking client, and what it gives out",
        ("EventStream", "Subscription", "ResourceWatch", "LoadedSkill", "Client"),
    ),
    "_generated_group.py": (
        "The blocking group of servers, and its tool set",
        ("GroupEvents", "ToolSet", "Group"),
    ),
}
"""Module -> its first line, and its classes."""

RUNTIME: Final = {
    "Client": "sync._generated",
    "DEFAULT_LIMITS": "limits",
    "DEFAULT_RECOVERY": "limits",
    "Facade": "sync._facade",
    "GroupBase": "group.base",
    "OwningFacade": "sync._facade",
    "PendingCall": "sync._facade",
    "ForwardingFacade": "sync._facade",
    "ReadOnlyToolSet": "tools.toolset",
    "StreamFacade": "sync._facade",
    "UNSET": "types",
}
"""The imports at runtime: name -> its module."""

CLASSES: Final = {
    "EventStream": ("StreamFacade", "client/streams.py"),
    "Subscription": ("EventStream", "client/streams.py"),
    "ResourceWatch": ("StreamFacade", "client/streams.py"),
    "LoadedSkill": ("Facade", "client/skills.py"),
    "Client": ("OwningFacade", "client/client.py"),
    "GroupEvents": ("StreamFacade", "group/events.py"),
    "ToolSet": ("ForwardingFacade, ReadOnlyToolSet", "tools/toolset.py"),
    "Group": ("OwningFacade, ForwardingFacade, GroupBase[Client]", "group/group.py"),
}
"""Class -> its bases, and the module of the asyncio class of the same name."""

TYPES: Final[set[str]] = set()
"""Names of `mcpwire.types` in the sources, as they are found."""

SKIPPED: Final = {
    *("EventStream.notification_received", "EventStream.connection_changed"),
    *("Subscription.notification_received", "Subscription.connection_changed"),
    *("GroupEvents.put", "GroupEvents.end"),
    *("Client.observe", "Client.abandon", "Group.abandon"),
    *("Client.needs_loop", "Group.needs_loop"),
    *("Group.deliver", "Group.fetch_tools", "Group.notify_tool_sets"),
    *("Group.new_buffer", "ToolSet.handle_change"),
}
"""Names that the asyncio classes use between each other."""

ON_LOOP: Final = {
    *("Client.events", "Client.listen", "Client.watch"),
    *("Client.set_handlers", "Group.set_handlers", "Group.events"),
    *("Group.notify_roots_changed", "ToolSet.accept"),
}
"""Plain methods that use objects of the event loop."""

POSTED: Final = {"Client.cancel", "Group.cancel"}
"""Plain methods that do not wait, and work in a signal handler."""

DUNDERS: Final = {
    "__len__",
    "__iter__",
    "__contains__",
    "__getitem__",
    "__bool__",
    "__anext__",
}

NAMES: Final = {"__anext__": "__next__", "aclose": "close", "AsyncIterator": "Iterator"}

BACKGROUND: Final = """\
    background: Whether a thread of its own runs the event loop, also between calls,
        so that what the {} is served at any time. `on_notification`,
        `keepalive`{} begin that thread by themselves.
"""

TEXTS: Final = (
    (
        "as safe to cancel: the server is told, and the connection goes on.",
        """\
as safe to interrupt: the server is told, and the connection goes on.
Any number of threads may share a client.""",
    ),
    ("to be awaited or cancelled later.", "to wait for or to cancel later."),
    ("or: result = await call", "or: result = call.result()"),
    ("awaiting the handle.", "its `result`."),
    (
        "Cancelling the task sends a cancellation to the server and returns at once.",
        "Ctrl-C tells the server and raises `KeyboardInterrupt`.",
    ),
    (
        "Works from any task, again after `aclose`",
        "Works from any thread, again after `aclose`",
    ),
    (
        "Cancelling the last caller undoes what had begun.",
        "Ctrl-C undoes what had begun.",
    ),
    (
        "Works from any task, in any order, twice.",
        "Works from any thread, in any order, twice.",
    ),
    ("Can be called from any task,", "Can be called from any thread,"),
    (
        "When cancelled, the closing goes on by itself.",
        "Ctrl-C ends the server's process at once.",
    ),
    (
        "A group is used on one event loop, from any task.",
        "Any number of threads may share it.",
    ),
    (
        "Closing continues if the caller is cancelled.",
        "Closing continues after Ctrl-C.",
    ),
    ("or the caller is cancelled, the other", "or after Ctrl-C, the other"),
    ("Cancelling the last of them cancels connecting,", "Ctrl-C cancels connecting,"),
    (
        "Cancelling it ends the listings that no other caller waits for.",
        "Ctrl-C ends the listings that no other caller waits for.",
    ),
    ("Safe to cancel: nothing is lost.", "Safe to interrupt: nothing is lost."),
    ("async with mcpwire.", "with mcpwire.sync."),
    ("async with ", "with "),
    ("async for ", "for "),
    ("await ", ""),
    ("`aclose`", "`close`"),
    ("a function, plain or async, is", "a function is"),
    (
        "A function, plain or async, called with each `GroupEvent`.",
        "A function called with each `GroupEvent`, in a thread.",
    ),
    (
        "each `Notification` that belongs to no call.",
        "each `Notification` that belongs to no call, in a\n        thread.",
    ),
)

FOUND: Final[set[str]] = set()
"""The texts of `TEXTS` that a docstring contained."""

LEFT_OVER: Final = re.compile(r"\basync|await|aclose|asyncio|coroutine|plain or async")


class GenerateError(Exception):
    """Something has no blocking form; the message names it."""


def made(module: str) -> str:
    """Return the text of a module."""
    title, names = MODULES[module]
    imports: list[str] = []
    body = "\n\n".join(_class(name, imports) for name in names)

    def used(name: str) -> bool:
        return name not in names and re.search(rf"\b{name}\b", body) is not None

    runtime = [
        f"from mcpwire.{where} import {name}"
        for name, where in RUNTIME.items()
        if used(name)
    ]
    by_name = {line.split()[-1]: line for line in reversed(imports)}
    annotations = [line for name, line in by_name.items() if used(name)]
    text = HEADER.format(
        title=title,
        runtime="\n".join(runtime),
        imports=textwrap.indent("\n".join(annotations), "    "),
    )
    return _tidied(f"{text}\n\n{body}", module)


def _parsed(path: str, name: str, imports: list[str]) -> ast.ClassDef:
    module = ast.parse((ROOT / "mcpwire" / path).read_text(encoding="utf-8"))
    imports += _imports(module.body)
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    raise GenerateError(f"there is no class {name} in {path}")


def _imports(body: list[ast.stmt]) -> Iterator[str]:
    """Return a line for each name imported for annotations, but for our own."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _imports(node.body)
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                if alias.name in {*CLASSES, *RUNTIME, "Any"}:
                    continue
                if (node.module or "").startswith("mcpwire.types"):
                    TYPES.add(alias.name)
                    yield "from mcpwire import types"
                else:
                    name = ast.unparse(alias).replace("AsyncIterator", "Iterator")
                    yield f"from {node.module} import {name}"
        elif isinstance(node, ast.Import):
            yield ast.unparse(node)


def _class(name: str, imports: list[str]) -> str:
    bases, path = CLASSES[name]
    module = path.removesuffix(".py").replace("/", ".")
    imports.append(f"from mcpwire.{module} import {name} as Async{name}")
    own = _parsed(path, name, imports)
    body = [*own.body]
    if name == "Group":  # it reads the rest itself
        body += [
            node
            for node in _parsed("group/base.py", "GroupBase", imports).body
            if getattr(node, "name", "") in {"client_of", "set_handlers"}
        ]
    lines = [f"class {name}({bases}):{_docstring(own)}", f"    _inner: Async{name}"]
    for item in body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            lines += _method(name, item)
    return "\n\n".join(lines)


def _constructor(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    given = _passed(node.args)
    node.args.kwonlyargs.append(
        ast.arg("background", ast.parse("bool", mode="eval").body)
    )
    node.args.kw_defaults.append(ast.Constant(value=False))
    return textwrap.indent(
        f"def __init__({_annotated(node.args)}) -> None:\n"
        f"    from mcpwire.{name.lower()} import {name} as Inner\n\n"
        f"    self._create_inner(Inner, {given}, background=background)",
        "    ",
    )


def _method(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return a method of a class, where it is public."""
    where = f"{name}.{node.name}"
    if node.name == "__init__" and name in {"Client", "Group"}:
        return [_constructor(name, node)]
    is_public = not node.name.startswith("_") or node.name in DUNDERS
    if not is_public or where in SKIPPED:
        return []
    returns = _annotation(node)
    decorators = "".join(f"@{ast.unparse(each)}\n" for each in node.decorator_list)
    if "property" in decorators:
        body = f"return self._inner.{node.name}"
    else:
        body = _body(where, node, returns)
    text = (
        f"{decorators}def {NAMES.get(node.name, node.name)}({_annotated(node.args)})"
        f" -> {returns}:{_docstring(node)}\n{textwrap.indent(body, '    ')}"
    )
    return [textwrap.indent(text, "    ")]


def _body(
    where: str, node: ast.FunctionDef | ast.AsyncFunctionDef, returns: str
) -> str:
    """Return the one line of a method."""
    given = _passed(node.args)
    inner = f"self._inner.{node.name}"
    kind = returns.split("[", maxsplit=1)[0]
    if node.name == "__anext__":
        value = "self._next_item(self._inner)"
    elif node.name == "aclose" and where.startswith(("Client.", "Group.")):
        value = f"self._close({inner})"
    elif where in POSTED:
        value = f"self._runner.post({inner}, {given})"
    elif isinstance(node, ast.AsyncFunctionDef):
        value = f"self._run({inner}({given}))"
    elif kind == "Iterator" and not node.name.startswith("__"):
        value = f"self._iterate({inner}({given}))"
    elif where in ON_LOOP:
        value = f"self._on_loop({f'lambda: {inner}({given})' if given else inner})"
    else:
        value = f"{inner}({given})"
    if kind in CLASSES or kind == "PendingCall":
        value = f"self._wrap({kind}, {value})"
    thread = "self._runner.wants_thread = True\n" if kind == "PendingCall" else ""
    return thread + (value if returns == "None" else f"return {value}")


def _annotation(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    assert node.returns is not None, node.name
    text = _annotated(node.returns)
    return text.replace("AsyncIterator", "Iterator").replace("ClientT", "Client")


def _annotated(node: ast.AST) -> str:
    """Return annotations in which the types of the protocol have their module."""
    return re.sub(rf"\b({'|'.join(TYPES)})\b", r"types.\1", ast.unparse(node))


def _passed(arguments: ast.arguments) -> str:
    """Return the arguments of a method's signature as those of a call."""
    parts = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][1:]
    if arguments.vararg is not None:
        parts.append(f"*{arguments.vararg.arg}")
    parts += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        parts.append(f"**{arguments.kwarg.arg}")
    return ", ".join(parts)


def _docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    text = ast.get_docstring(node)
    if text is None:
        return ""
    for old, new in TEXTS:
        if old in text:
            FOUND.add(old)
            text = text.replace(old, new)
    if isinstance(node, ast.ClassDef) and node.name in {"Client", "Group"}:
        more = BACKGROUND.format("server starts", " and `start_call`")
        mark = "\nRaises:\n"
        if node.name == "Group":
            more = BACKGROUND.format("servers start", ", `restart` and `idle`")
            mark = "    options: The options of every"
        assert text.count(mark) == 1, node.name
        text = text.replace(mark, more + mark)
    left = LEFT_OVER.search(text)
    if left is not None:
        raise GenerateError(f"{node.name}: its docstring says {left.group()!r}: {text}")
    if "\n" in text:
        text += "\n"
    return "\n" + textwrap.indent(f'"""{text}"""', "    ")


def _tidied(text: str, module: str) -> str:
    check = ("check", "--fix-only", "--select")
    for command in ((*check, "F401"), (*check, "I001"), ("format",)):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "ruff", *command),
                *("--stdin-filename", str(SYNC / module), "-"),
            ],
            cwd=ROOT,
            input=text,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            raise GenerateError(f"ruff: {done.stderr}")
        text = done.stdout
    return text


def main(arguments: Sequence[str]) -> str | None:
    if list(arguments) not in ([], ["--write"]):
        return "usage: python tests/sync/generate.py [--write]"
    for module in MODULES:
        path, text = SYNC / module, made(module)
        if arguments:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            return f"{module} is not what would be written: run with --write"
    unused = [old for old, _ in TEXTS if old not in FOUND]
    return f"no docstring contains {unused}" if unused else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
