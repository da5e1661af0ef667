"""The figures that stand in a text, between two marks, as the result files have them.

    <!-- figures: stdio -->
    ...
    <!-- end of figures -->

The name is that of a question. `headline` is the one table of the page that people
read, `behind` is every line that is not kept, `summary` is the tables of a whole run.
`run.py --tables` writes what stands between the marks. Each result file has a text
beside it, which is begun where there is none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness import report

from whole import headline

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ("README.md", "benchmarks/README.md", "docs/performance.md")
"""Where there may be such marks, from the root of the tree, beside the results."""

BEGUN = "# {}\n\n<!-- figures: {} -->\n<!-- end of figures -->\n"

MARKS = re.compile(
    r"(?<=<!-- figures: )(?P<name>[\w.]+)( -->\n).*?(?=<!-- end of figures -->)",
    re.DOTALL,
)

WHOLE = {
    "behind": headline.behind,
    "headline": headline.render,
    "summary": report.everything,
}
"""What is made of all results, by name."""


def block(name: str, folder: Path) -> str:
    """Return what stands between the marks of that name.

    Raises:
        ValueError: A result file is none.
    """
    if name in WHOLE:
        files = sorted(folder.glob("*.json"))
        return WHOLE[name]([report.load(file) for file in files])
    file = folder / f"{name}.json"
    return report.section(report.load(file)) if file.exists() else "Not measured yet."


def filled(text: str, folder: Path) -> str:
    """Return a text with everything between its marks as the results have it."""
    return MARKS.sub(
        lambda found: f"{found['name']}{found[2]}\n{block(found['name'], folder)}\n\n",
        text,
    )


def stale(root: Path, folder: Path) -> dict[Path, str]:
    """Return what the texts should say that say something else."""
    found = {}
    beside = {path.with_suffix(".md") for path in folder.glob("*.json")}
    texts = [*(root / name for name in TEXTS), *sorted({*folder.glob("*.md"), *beside})]
    for path in texts:
        begun = BEGUN.format(path.stem, path.stem) if path in beside else ""
        text = path.read_text(encoding="utf-8") if path.exists() else begun
        if (right := filled(text, folder)) != text:
            found[path] = right
    return found


def write(root: Path, folder: Path) -> list[Path]:
    """Write the texts that say something else anew; return which."""
    changed = stale(root, folder)
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return list(changed)
