"""Tool sets over a shelf, closed at the end of their test."""

import pytest
from fake_source import Shelf

from mcpwire.tools import ToolSet


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def made(anyio_backend):
    sets = []

    async def make(shelf=None, **options):
        tools = ToolSet(shelf or Shelf(files=["read", "write"]), **options)
        sets.append(tools)
        await tools.refresh()
        return tools

    yield make
    for tools in sets:
        await tools.aclose()
