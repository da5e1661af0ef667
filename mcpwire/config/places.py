"""Where configurations are looked for when nobody says which."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["default_files"]

VARIABLE: Final = "MCPWIRE_CONFIG"
"""The variable that names the one configuration to be read."""

HERE: Final = ("mcpwire.toml", ".mcp.json", "mcp.json")
"""What is read of the working directory; of the same name the last one counts."""


def default_files(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the files to be read, as layers: what a later one says counts.

    ``MCPWIRE_CONFIG`` names the only one, whether it exists or not. Else they are those
    that exist of ``~/.config/mcpwire/config.toml`` (or in ``XDG_CONFIG_HOME``),
    ``./mcpwire.toml``, ``./.mcp.json`` and ``./mcp.json``.
    """
    variables = os.environ if environment is None else environment
    if named := variables.get(VARIABLE):
        return (Path(named),)
    home = variables.get("XDG_CONFIG_HOME") or ""
    if not os.path.isabs(home):  # noqa: PTH117 - the XDG rules: a relative one is none
        home = str(Path(variables.get("HOME") or "~").expanduser() / ".config")
    places = (Path(home, "mcpwire", "config.toml"), *map(Path, HERE))
    return tuple(place for place in places if place.is_file())
