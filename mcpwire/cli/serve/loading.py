"""Finds the server object that ``mcpwire serve`` is to run.

``module:name``, or ``path/to/file.py:name``; without a name the usual ones are tried.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcpwire.cli.failures import UsageError, close_matches, did_you_mean

if TYPE_CHECKING:
    from types import ModuleType

    from mcpwire.server.server import Server

__all__ = ["load_server", "split_target"]

NAMES: Final = ("server", "mcp", "app")
"""What a server is called where nobody says it."""


def split_target(target: str) -> tuple[str, str | None]:
    """Return the module, or the path of a file, and the name behind the colon."""
    where, colon, name = target.rpartition(":")
    if not colon or "/" in name or "\\" in name or name.endswith(".py"):
        return target, None
    if not name.replace(".", "_").isidentifier():
        raise UsageError(f"{name!r} is no name of an object, in {target!r}")
    return where, name


def load_server(target: str) -> Server:
    """Import the module or the file, and return its server.

    Raises:
        UsageError: There is no such module, or no server in it.
        Exception: What importing it raised.
    """
    where, name = split_target(target)
    module = _import(where)
    found = _find(module, name, where)
    from mcpwire.server.server import Server

    if not isinstance(found, Server) and callable(found):
        found = found()
    if not isinstance(found, Server):
        raise UsageError(
            f"{target!r} is a {type(found).__name__}, and no mcpwire.Server"
        )
    return found


def _import(where: str) -> ModuleType:
    if where.endswith(".py") or "/" in where or "\\" in where:
        return _import_file(Path(where))
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        # What is missing may be something that the module needs.
        if error.name is not None and f"{where}.".startswith(f"{error.name}."):
            raise UsageError(f"there is no module {where!r}") from error
        raise
    except ValueError as error:  # an empty name
        raise UsageError(f"{where!r} is no name of a module") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{str(path)!r} is no Python file")
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _find(module: ModuleType, name: str | None, where: str) -> Any:
    if name is not None:
        found: Any = module
        for part in name.split("."):
            if not hasattr(found, part):
                raise UsageError(
                    f"there is no {name!r} in {where!r}"
                    f"{did_you_mean(close_matches(name, _servers(module)))}"
                )
            found = getattr(found, part)
        return found
    for usual in NAMES:
        if usual in vars(module):
            return getattr(module, usual)
    servers = _servers(module)
    if len(servers) == 1:
        return getattr(module, servers[0])
    if not servers:
        raise UsageError(
            f"there is no mcpwire.Server in {where!r}; the name of a function that "
            f"makes one goes behind a colon"
        )
    raise UsageError(
        f"which server of {where!r} is meant: name one of {', '.join(servers)}"
    )


def _servers(module: ModuleType) -> list[str]:
    from mcpwire.server.server import Server

    return [name for name, value in vars(module).items() if isinstance(value, Server)]
