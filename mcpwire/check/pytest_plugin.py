"""pytest plugin: ``pytest --mcpwire-check TARGET`` runs one test item per case.

Load it with ``-p mcpwire.check.pytest_plugin``, or a line in the top ``conftest.py``::

    pytest_plugins = ["mcpwire.check.pytest_plugin"]

The first item runs all cases. An item fails if its case has the verdict `fail`,
`crash`, `hang` or `unrun` in any cell, and is skipped if no cell has the feature.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from mcpwire.check.case import Verdict
from mcpwire.check.reports import details
from mcpwire.check.runner import Options, run, select
from mcpwire.transports.targets import Stdio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.check.results import Result

_BAD = frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.HANG, Verdict.UNRUN})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options."""
    group = parser.getgroup("mcpwire check")
    group.addoption(
        "--mcpwire-check",
        metavar="TARGET",
        help="check an MCP server: a command line, or a URL",
    )
    group.addoption(
        "--mcpwire-check-full", action="store_true", help="run the slow cases too"
    )
    group.addoption(
        "--mcpwire-check-only",
        action="append",
        default=[],
        metavar="ID|FAMILY",
        help="run these cases only; may be repeated",
    )


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add an item for each case."""
    target = config.getoption("--mcpwire-check")
    if target is None:
        return
    options = Options(
        speed="full" if config.getoption("--mcpwire-check-full") else "quick",
        only=tuple(config.getoption("--mcpwire-check-only")),
    )
    try:
        cases = select(options)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    collector = _Server.from_parent(
        session, name="mcpwire-check", nodeid="mcpwire-check"
    )
    collector.target, collector.options = target, options
    items.extend(_CaseItem.from_parent(collector, name=case.id) for case in cases)


class _Server(pytest.Collector):
    """The server under test and, after the first item has run, the results."""

    target: str
    options: Options
    found: dict[str, list[Result]] | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """Yield no items: `pytest_collection_modifyitems` adds them."""
        return iter(())

    def results(self, case: str) -> list[Result]:
        """Return the results of a case, one per cell; the first call runs all cases."""
        if self.found is None:
            self.found = {}
            target: Any = self.target
            if "://" not in self.target:
                command, *words = shlex.split(self.target)
                target = Stdio(command, tuple(words), inherit_env=True)
            for each in asyncio.run(run(target, self.options)).results:
                self.found.setdefault(each.case, []).append(each)
        return self.found.get(case, [])


class _CaseItem(pytest.Item):
    """Test item for one case in all cells."""

    parent: _Server

    def runtest(self) -> None:
        """Fail if the case has a bad verdict; skip if no cell has the feature."""
        results = self.parent.results(self.name)
        bad = [each for each in results if each.verdict in _BAD]
        if bad:
            raise _BreachError("\n\n".join(map(_told, bad)))
        if all(each.verdict is Verdict.ABSENT for each in results):
            pytest.skip(results[0].actual if results else "no revision has this case")
        for each in results:
            if each.verdict is not Verdict.PASS:
                self.add_report_section("call", each.verdict.value, _told(each))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> Any:
        """Return the findings without a traceback."""
        if isinstance(excinfo.value, _BreachError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, None, str]:
        """Return the location and name of the item."""
        return "mcpwire-check", None, self.name


class _BreachError(Exception):
    """A case has a bad verdict."""


def _told(result: Result) -> str:
    head = f"{result.verdict.value}  {result.case}  {result.cell}  {result.title}"
    return "\n".join([head, *(f"  {line}" for line in details(result))])
