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

_FAILING = frozenset({Verdict.FAIL, Verdict.CRASH, Verdict.HANG, Verdict.UNRUN})


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
    collector = _ServerCollector.from_parent(
        session, name="mcpwire-check", nodeid="mcpwire-check"
    )
    collector.target, collector.options = target, options
    items.extend(_CaseItem.from_parent(collector, name=case.id) for case in cases)


class _ServerCollector(pytest.Collector):
    """The server under test and, after the first item has run, the results."""

    target: str
    options: Options
    by_case: dict[str, list[Result]] | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """Yield no items: `pytest_collection_modifyitems` adds them."""
        return iter(())

    def results(self, case: str) -> list[Result]:
        """Return the results of a case, one per cell; the first call runs all cases."""
        if self.by_case is None:
            self.by_case = {}
            target: Any = self.target
            if "://" not in self.target:
                command, *words = shlex.split(self.target)
                target = Stdio(command, tuple(words), inherit_env=True)
            for result in asyncio.run(run(target, self.options)).results:
                self.by_case.setdefault(result.case, []).append(result)
        return self.by_case.get(case, [])


class _CaseItem(pytest.Item):
    """Test item for one case in all cells."""

    parent: _ServerCollector

    def runtest(self) -> None:
        """Fail if the case has a bad verdict; skip if no cell has the feature."""
        results = self.parent.results(self.name)
        failures = [result for result in results if result.verdict in _FAILING]
        if failures:
            raise _FindingError("\n\n".join(map(_describe, failures)))
        if all(result.verdict is Verdict.ABSENT for result in results):
            reason = "the case applies to no tested revision"
            pytest.skip(results[0].actual if results else reason)
        for result in results:
            if result.verdict is not Verdict.PASS:
                self.add_report_section("call", result.verdict.value, _describe(result))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> Any:
        """Return the findings without a traceback."""
        if isinstance(excinfo.value, _FindingError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, None, str]:
        """Return the location and name of the item."""
        return "mcpwire-check", None, self.name


class _FindingError(Exception):
    """A case has a bad verdict."""


def _describe(result: Result) -> str:
    head = f"{result.verdict.value}  {result.case}  {result.cell}  {result.title}"
    return "\n".join([head, *(f"  {line}" for line in details(result))])
