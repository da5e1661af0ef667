"""Break each row of `docs/contributing/systems.md` in a copy: its tests fail there.

    python tests/rows.py [ROW ...] [--workers N] [--anew]
    python tests/rows.py --write  # `tests/rows/open.txt`: the rows without a change

`tests/rows/*.toml` has one change for each row: a file, a piece of its text that occurs
once in it, and its replacement. It breaks what the row promises and little else;
the package stays importable. Each worker has a copy of the tree; it applies one
change, runs the tests that the row names, and reverts the change. A row is proven
where one of its tests fails with the change and all of them pass without.

Proven rows are kept in `.build/rows.json` and not run again while nothing but other
rows' changes differs. The exit code is 1 unless every requested row is proven.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "contributing" / "systems.md"
DATA: Final = ROOT / "tests" / "rows"
OPEN: Final = DATA / "open.txt"
KEPT: Final = ROOT / ".build" / "rows.json"

TEST: Final = re.compile(r"`([\w/]+\.py)::(test_\w+)`")

PASSED, FAILED = 0, 1
"""Exit codes of pytest; all others mean that no test could be run."""

PLUGINS: Final = ("-p", "anyio", "-p", "timeout", "-p", "hypothesispytest")
"""The plugins that the tests need: loading the others takes half of the time."""

TEST_S: Final = 60
RUN_S: Final = 400


@dataclass(frozen=True)
class Change:
    """Breaks a row: `text`, which occurs once in `file`, becomes `change`."""

    row: str
    file: str
    text: str
    change: str

    def problem(self) -> str:
        """Return why it cannot be applied; "" if it can."""
        path = ROOT / self.file
        if not path.is_file():
            return f"{self.row}: there is no {self.file}"
        count = path.read_text(encoding="utf-8").count(self.text)
        if count != 1:
            return f"{self.row}: its text occurs {count} times in {self.file}"
        return f"{self.row}: it changes nothing" if self.text == self.change else ""


@cache
def table() -> dict[str, list[list[str]]]:
    """Return the cells of the page's rows by their first cell, in order."""
    found = defaultdict(list)
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith(("| ---", "| # ")):
            first, *rest = (cell.strip() for cell in line.strip("|").split(" | "))
            if first not in {"line", "limit"}:
                found[first].append(rest)
    return dict(found)


def named_in(cell: str) -> list[str]:
    """Return the tests that a cell names."""
    return [f"tests/{path}::{name}" for path, name in TEST.findall(cell)]


def tests_of(row: str) -> list[str]:
    """Return the tests that a row names."""
    return named_in(table()[row][0][-1])


def changes() -> dict[str, Change]:
    """Return the change of each row that has one."""
    found: dict[str, Change] = {}
    for path in sorted(DATA.glob("*.toml")):
        for row, facts in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if row in found:
                raise ValueError(f"{row} has two changes")
            found[row] = Change(row, **facts)
    return found


def unproven() -> list[str]:
    """Return the rows with tests that have no change yet."""
    there = changes()
    return [row for row in table() if tests_of(row) and row not in there]


def without_tests() -> list[str]:
    """Return the rows that name no test: refused rows, which have nothing to break."""
    return [row for row in table() if not tests_of(row)]


def together(tests: list[str]) -> list[list[str]]:
    """Return the tests by file: modules of two folders may share a name."""
    found = defaultdict(list)
    for test in tests:
        found[test.partition("::")[0]].append(test)
    return list(found.values())


# The copies...


def tracked() -> list[str]:
    """Return the files of the tree that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().splitlines() if _is_file(name)]


def _is_file(name: str) -> bool:
    return (ROOT / name).is_file() and not (ROOT / name).is_symlink()


def fingerprint(names: list[str]) -> str:
    """Return a fingerprint of the tree, without the rows' own changes."""
    digest = hashlib.sha256()
    for name in sorted(names):
        if name.startswith(("mcpwire/", "tests/", "pyproject")) and not (
            name.startswith("tests/rows")
        ):
            digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()


class Copy:
    """A copy of the tree in which one worker breaks one row after the other."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        for name in names:
            there = folder / name
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, there)
        for name in (".peers", ".hypothesis"):
            if (ROOT / name).is_dir():
                (folder / name).symlink_to((ROOT / name).resolve())
        spec = os.environ.get("MCPWIRE_SPEC", str(ROOT.parent / "shared" / "spec"))
        paths = {"PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        self.environment = os.environ | paths
        self._changes = 0
        if Path(spec).is_dir():
            self.environment["MCPWIRE_SPEC"] = str(Path(spec).resolve())
        compiling = [sys.executable, "-m", "compileall", "-q", "mcpwire"]
        subprocess.run(compiling, cwd=folder, check=True)

    def run(self, tests: list[str], *options: str) -> tuple[int | None, str]:
        """Return pytest's exit code (None: it took too long) and its last lines."""
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line"),
            *("-p", "no:cacheprovider", *PLUGINS, f"--timeout={TEST_S}"),
            *(*options, *tests),
        ]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=RUN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, "it took too long"
        return done.returncode, done.stdout.decode(errors="replace")[-3_000:]

    def breaks(self, change: Change) -> str:
        """Return what is wrong with a change; "" if a test fails as it should."""
        path = self.folder / change.file
        before, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(before.replace(change.text, change.change), encoding="utf-8")
        self._changes += 1  # a new time each time, because of its bytecode
        os.utime(path, (times.st_atime, times.st_mtime + 100 * self._changes))
        try:
            for tests in together(tests_of(change.row)):
                code, output = self.run(tests, "-x")
                if code == FAILED:
                    return ""
                if code != PASSED:
                    return f"no test could be run: {output}"
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, (times.st_atime, times.st_mtime))
        return "no test fails"


# The run...


def print_line(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Break the rows, print those that no test protects, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help="all without any")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--anew", action="store_true", help="also what was proven")
    parser.add_argument("--write", action="store_true", help="list the rows without")
    options = parser.parse_args(arguments)
    if options.write:
        OPEN.write_text("".join(f"{row}\n" for row in unproven()), encoding="utf-8")
        return 0
    there, names = changes(), tracked()
    requested = options.rows or list(table())
    if unknown := [row for row in requested if row not in table()]:
        parser.error(f"no such row: {', '.join(unknown)}")
    if stale := [output for row in there if (output := there[row].problem())]:
        print_line("\n".join(stale))
        return 1
    kept = _Kept(fingerprint(names))
    if options.anew:
        kept.forget(requested)
    waiting = [
        there[row] for row in requested if row in there and not kept.has(there[row])
    ]
    if waiting:
        _break_all(waiting, names, kept, options.workers)
    return _summary(requested, there, kept)


class _Kept:
    """The proven rows of this tree, saved after each row."""

    def __init__(self, tree: str) -> None:
        self._lock = threading.Lock()
        self.proven: dict[str, str] = {}
        self.tree = tree
        if KEPT.is_file():
            kept = json.loads(KEPT.read_text(encoding="utf-8"))
            if kept["tree"] == tree:
                self.proven = kept["proven"]

    def has(self, change: Change) -> bool:
        return self.proven.get(change.row) == repr(change)

    def forget(self, rows: list[str]) -> None:
        for row in rows:
            self.proven.pop(row, None)

    def add(self, change: Change) -> None:
        with self._lock:
            self.proven[change.row] = repr(change)
            KEPT.parent.mkdir(exist_ok=True)
            text = json.dumps({"tree": self.tree, "proven": self.proven}, indent=1)
            KEPT.write_text(text, encoding="utf-8")


def _fail_unchanged(copies: list[Copy], waiting: list[Change]) -> str:
    """Run all tests of the rows without a change; return the failures."""
    tests = sorted({test for change in waiting for test in tests_of(change.row)})

    def one(of_a_file: list[str]) -> str:
        copy = copies.pop()
        try:
            code, output = copy.run(of_a_file)
        finally:
            copies.append(copy)
        return "" if code == PASSED else output

    with ThreadPoolExecutor(len(copies)) as pool:
        return "\n".join(filter(None, pool.map(one, together(tests))))


def _break_all(
    waiting: list[Change], names: list[str], kept: _Kept, workers: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="rows-") as parent:
        workers = min(workers, len(waiting))
        copies = [Copy(Path(parent) / str(n), names) for n in range(workers)]
        if wrong := _fail_unchanged(copies, waiting):
            print_line(f"without any change:\n{wrong}")
            raise SystemExit(1)

        def one(change: Change) -> None:
            copy = copies.pop()
            try:
                wrong = copy.breaks(change)
            finally:
                copies.append(copy)
            if not wrong:
                kept.add(change)
            print_line(f"{change.row:6} {wrong or 'fails as it should'}")

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(one, waiting))


def _summary(requested: list[str], there: dict[str, Change], kept: _Kept) -> int:
    refused = set(without_tests())
    missing = [row for row in requested if row not in there and row not in refused]
    undefended = [row for row in requested if row in there and not kept.has(there[row])]
    proven = len(requested) - len(missing) - len(undefended)
    if undefended:
        print_line(f"no test fails for: {' '.join(undefended)}")
    if missing:
        print_line(f"without a change: {len(missing)}")
    print_line(f"rows: {proven} of {len(requested)}")
    return 0 if proven == len(requested) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
