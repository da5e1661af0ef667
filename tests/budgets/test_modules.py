"""The modules loaded by importing, connecting and one call, on each path."""

import pytest
from child_python import printed_by
from paths import BOUND_S, counted
from unmeasured import unmeasured

NEVER = (
    *("httpx", "httpcore", "h11", "h2", "requests", "urllib3", "aiohttp"),
    *("argparse", "rich", "pydantic", "jsonschema_rs", "yaml", "joserfc"),
    *("cryptography", "opentelemetry", "redis", "mcp", "email", "http.client"),
    *("mcpwire.cli", "mcpwire.testing"),
)
"""Modules that no call loads on any path."""

NEVER_BY_CLIENTS = (
    *("anyio", "msgspec", "uvicorn", "mcpwire.server"),
    *("mcpwire.types.prompts", "mcpwire.types.resources"),
    "mcpwire.types.lifecycle",
)
HTTP = ("httptools", "mcpwire.transports.http", "mcpwire.protocol.http_reply")
PROCESSES = ("mcpwire.transports.process",)
PIPE_ONLY = (
    *("mcpwire.types.client_features", "mcpwire.types.tasks"),
    *("mcpwire.wire.urls", "mcpwire.wire.sse", "mcpwire.wire.headers"),
    "mcpwire.transports.memory",
)

HTTP_ALONE = (
    *NEVER_BY_CLIENTS,
    *PROCESSES,
    "mcpwire.transports.http.httpx_engine",
    "mcpwire.transports.http.legacy_sse",
)

FORBIDDEN = {
    "stdio": (*NEVER_BY_CLIENTS, *HTTP, *PIPE_ONLY),
    "blocking stdio": (*NEVER_BY_CLIENTS, *HTTP, *PIPE_ONLY),
    "http json": HTTP_ALONE,
    "blocking http json": HTTP_ALONE,
    "memory": (*HTTP, *PROCESSES, "uvicorn"),
    "server stdio": (*HTTP, *PROCESSES, "uvicorn", "mcpwire.client"),
    "server http": ("httptools", *PROCESSES, "uvicorn", "mcpwire.client"),
}


def loaded(path):
    return set(counted(f"{path}, session")["modules"])


@pytest.mark.parametrize("path", FORBIDDEN)
def test_connecting_and_calling_load_only_used_modules(path):
    found = loaded(path)
    assert "mcpwire.errors" in found
    assert not found.intersection(NEVER)
    assert not found.intersection(FORBIDDEN[path])


def python(program):
    return printed_by("-c", program, timeout=BOUND_S, env=unmeasured()).split()


def test_importing_the_package_loads_two_modules():
    found = python("import mcpwire, sys; print(*sys.modules)")
    assert sorted(name for name in found if name.startswith("mcpwire")) == [
        "mcpwire",
        "mcpwire._package",
    ]


def test_creating_a_client_loads_no_process_or_http_module():
    found = python("import sys, mcpwire; mcpwire.Client('cat'); print(*sys.modules)")
    assert not {"httpx", "anyio", "mcpwire.transports.process"}.intersection(found)


CLIENT_MODULES = 34
"""The number of our modules that `mcpwire.Client` loads: it only goes down."""


def test_accessing_the_client_loads_no_more_modules_than_before():
    found = python("import sys, mcpwire; mcpwire.Client; print(*sys.modules)")
    own = [name for name in found if name.partition(".")[0] == "mcpwire"]
    assert CLIENT_MODULES - 3 <= len(own) <= CLIENT_MODULES, own


def test_accessing_the_client_loads_no_optional_modules():
    found = python("import sys, mcpwire; mcpwire.Client; print(*sys.modules)")
    assert "mcpwire.client.subscriptions" in found
    assert not {
        "mcpwire.client.streams",
        "mcpwire.types.lifecycle",
        "random",
    }.intersection(found)
