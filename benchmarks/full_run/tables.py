"""Update of the tables between two markers in a text, from the result files.

    <!-- figures: stdio -->
    ...
    <!-- end of figures -->

The name is that of a benchmark. `headline` is the main table, `behind` lists all
exceeded limits, `summary` has the tables of a whole run. `run.py --tables` replaces the
text between the markers. Each result file has a page beside it, created if missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness import report

from full_run import headline

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ("README.md", "benchmarks/README.md", "docs/performance.md")
"""Files that may have markers, relative to the root, besides the result pages."""

NEW_PAGE = "# {}\n\n<!-- figures: {} -->\n<!-- end of figures -->\n"

BLOCK = re.compile(
    r"(?<=<!-- figures: )(?P<name>[\w.]+)( -->\n).*?(?=<!-- end of figures -->)",
    re.DOTALL,
)

ALL_RESULTS = {
    "behind": headline.missed_budgets,
    "headline": headline.render,
    "summary": report.summary_tables,
}
"""The functions that render all results, by name of the marker."""


def block(name: str, folder: Path) -> str:
    """Return the content between the markers of a name.

    Raises:
        ValueError: A result file is invalid.
    """
    if name in ALL_RESULTS:
        files = sorted(folder.glob("*.json"))
        return ALL_RESULTS[name]([report.load(file) for file in files])
    file = folder / f"{name}.json"
    return report.section(report.load(file)) if file.exists() else "Not measured yet."


def fill_blocks(text: str, folder: Path) -> str:
    """Return a text with the content between its markers updated."""
    return BLOCK.sub(
        lambda match: f"{match['name']}{match[2]}\n{block(match['name'], folder)}\n\n",
        text,
    )


def outdated_texts(root: Path, folder: Path) -> dict[Path, str]:
    """Return the outdated files with their updated texts."""
    outdated = {}
    pages = {path.with_suffix(".md") for path in folder.glob("*.json")}
    texts = [*(root / name for name in TEXTS), *sorted({*folder.glob("*.md"), *pages})]
    for path in texts:
        new_page = NEW_PAGE.format(path.stem, path.stem) if path in pages else ""
        text = path.read_text(encoding="utf-8") if path.exists() else new_page
        if (updated := fill_blocks(text, folder)) != text:
            outdated[path] = updated
    return outdated


def write(root: Path, folder: Path) -> list[Path]:
    """Write the outdated files; return their paths."""
    changed = outdated_texts(root, folder)
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return list(changed)
