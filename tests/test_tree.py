"""The package keeps the shape that `docs/architecture.md` describes."""

from pathlib import Path

import gates
import pytest
from child_python import printed_by
from sources import imports_of, known_names, read, uncollected

ROOT = Path(__file__).parent.parent

WAIVERS: dict[tuple[str, str], str] = {
    (
        "third parties",
        "mcpwire.testing.pytest_plugin -> pytest",
    ): "a plugin of pytest is imported by pytest alone",
    (
        "third parties",
        "mcpwire.check.pytest_plugin -> pytest",
    ): "a plugin of pytest is imported by pytest alone",
    (
        "third parties",
        "mcpwire.bench.locust -> locust",
    ): "a user of Locust is imported by Locust alone",
    ("third parties", "mcpwire.bench.locust -> gevent"): "Locust brings it along",
    (
        "third parties",
        "mcpwire.transports.http.tls -> certifi",
    ): "httpx, which is always there, brings it along",
    (
        "dynamic imports",
        "mcpwire._package",
    ): "the `__init__` of a package imports a public name with its first use",
    (
        "dynamic imports",
        "mcpwire.cli.serve",
    ): "the user names the module whose server is run",
    (
        "dynamic imports",
        "mcpwire.cli.main",
    ): "the table of commands names each one's module, which only that command loads",
    (
        "layers",
        "mcpwire.transports.targets -> mcpwire.config.loading",
    ): "a target may be a configuration, which one module reads; imported for one only",
    (
        "purity",
        "mcpwire.protocol.cache",
    ): "clients of several threads may share a cache, so it has a lock",
    (
        "function size",
        "mcpwire.server.server.__init__",
    ): "each option is a parameter, for editors and readers; the body is short",
    (
        "function size",
        "mcpwire.server.http.app.__init__",
    ): "each option is a parameter, for editors and readers; the body is short",
}
"""(gate, what it is about) -> why this breach is right."""

PACKAGE_GATES = [
    gates.check_layers,
    gates.check_purity,
    gates.check_pure_names,
    gates.check_third_parties,
    gates.check_dynamic_imports,
    gates.check_private_names,
    gates.check_cycles,
    gates.check_usual_function_size,
]
SIZE_GATES = [gates.check_file_sizes, gates.check_function_sizes]
OTHER_FOLDERS = ["tests", "benchmarks", "conformance", "examples"]


def assert_package_was_read(package):
    """Gates without input would find nothing."""
    names = known_names(package)
    assert {"mcpwire", "mcpwire.errors", "mcpwire.versions"} <= names
    targets = {item.target for each in package for item in imports_of(each, names)}
    assert "mcpwire.errors" in targets


@pytest.mark.timeout(180)
def test_gate_findings_are_exactly_the_waivers():
    with uncollected():
        package = list(read(ROOT, "mcpwire"))
        assert_package_was_read(package)
        findings = [found for gate in PACKAGE_GATES for found in gate(package)]
        findings += [found for gate in SIZE_GATES for found in gate(package)]
        del package
        for folder in OTHER_FOLDERS:
            for module in read(ROOT, folder):
                findings += [found for gate in SIZE_GATES for found in gate([module])]
    assert gates.unwaived(findings, WAIVERS) == []


LIST_THIRD_PARTIES = """
import sys
import {module}
print(*sorted(
    name for name in sys.modules
    if name in {{"anyio", "attr", "attrs", "httptools", "httpx", "msgspec", "orjson"}}
))
"""


@pytest.mark.parametrize("module", ["mcpwire", "mcpwire.cli", "mcpwire.errors"])
def test_import_of_the_command_line_loads_no_third_party(module):
    code = LIST_THIRD_PARTIES.format(module=module)
    # Isolated, so that nothing but the import itself can load anything.
    assert printed_by("-I", "-c", code).split() == []
