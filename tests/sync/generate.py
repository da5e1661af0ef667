"""Makes the blocking client from the asyncio one.

``python tests/sync/generate.py --write`` writes the modules; without ``--write`` it
says which of them are not what it would write. What only awaits is made here; what
waits (`_connection`, `_handshake`, `_handlers`, `_duplex`, ...) is written by hand.
`blocking_tables.py` says which modules, and what is called otherwise in them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent))

from blocking_tables import FILES, PATCHES, TABLES, TEXTS
from to_blocking import UntranslatableError, to_blocking

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]

HEADER: Final = (
    "# Made by `python tests/sync/generate.py --write`: change the source instead,\n"
    "# {source}\n"
)

RUFF: Final = (
    (
        *("check", "--fix-only", "--unsafe-fixes", "--select", "F401,I001,UP028"),
        *("--config", "lint.isort.known-first-party=['mcpwire']"),
    ),
    ("format",),
)
"""What is tidied: imports nobody uses, their order, loops that only yield; layout."""


def made(source: str) -> str:
    """Return the text of the module that is made from a source file.

    Raises:
        UntranslatableError: Something in it has no blocking form.
    """
    text = to_blocking(
        (ROOT / source).read_text(encoding="utf-8"),
        source,
        TABLES,
        texts=TEXTS.get(source, ()),
        patches=PATCHES.get(source, ()),
    )
    return tidied(HEADER.format(source=source) + text, FILES[source])


def tidied(text: str, path: str) -> str:
    """Return the text as ruff sets it."""
    for command in RUFF:
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"],
            cwd=ROOT,
            input=text,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            raise UntranslatableError(f"{path}: ruff: {done.stderr}")
        text = done.stdout
    return text


def main(arguments: Sequence[str]) -> str | None:
    """Write or compare every module; return what is wrong."""
    if list(arguments) not in ([], ["--write"]):
        return "usage: python tests/sync/generate.py [--write]"
    stale = []
    for source, target in FILES.items():
        path = ROOT / target
        text = made(source)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(target)
        if arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{target}: written\n")
    if stale and not arguments:
        return f"not what would be written: {', '.join(stale)}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
