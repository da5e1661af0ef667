"""The lists of tools, resources and prompts: whole, page by page, or as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.client.base import ClientBase
from mcpwire.protocol.methods import find
from mcpwire.types._codec import decode_repaired

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Unpack

    from mcpwire.client.base import CallOptions
    from mcpwire.types import (
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ListToolsResult,
        Prompt,
        Resource,
        ResourceTemplate,
        Tool,
        WireType,
    )

__all__ = ["ListVerbs"]


class ListVerbs(ClientBase):
    """The requests that return lists, by what the method table says of each."""

    async def list_tools(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Return all tools, all pages; see `call_tool` for what is raised."""
        return await self._list("tools/list", options)

    async def list_tools_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListToolsResult:
        """Return one page of the tools and the cursor of the next."""
        page: ListToolsResult = await self._page("tools/list", cursor, options)
        return page

    def iter_tools(self, **options: Unpack[CallOptions]) -> AsyncIterator[Tool]:
        """Iterate over all tools, fetching pages as they are needed."""
        return self._iterate("tools/list", options)

    async def list_resources(self, **options: Unpack[CallOptions]) -> list[Resource]:
        """Return all resources, all pages; see `call_tool` for what is raised."""
        return await self._list("resources/list", options)

    async def list_resources_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListResourcesResult:
        """Return one page of the resources and the cursor of the next."""
        page: ListResourcesResult = await self._page("resources/list", cursor, options)
        return page

    def iter_resources(self, **options: Unpack[CallOptions]) -> AsyncIterator[Resource]:
        """Iterate over all resources, fetching pages as they are needed."""
        return self._iterate("resources/list", options)

    async def list_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> list[ResourceTemplate]:
        """Return all resource templates, all pages."""
        return await self._list("resources/templates/list", options)

    async def list_resource_templates_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListResourceTemplatesResult:
        """Return one page of the resource templates and the cursor of the next."""
        page: ListResourceTemplatesResult = await self._page(
            "resources/templates/list", cursor, options
        )
        return page

    def iter_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> AsyncIterator[ResourceTemplate]:
        """Iterate over all resource templates, fetching pages as they are needed."""
        return self._iterate("resources/templates/list", options)

    async def list_prompts(self, **options: Unpack[CallOptions]) -> list[Prompt]:
        """Return all prompts, all pages; see `call_tool` for what is raised."""
        return await self._list("prompts/list", options)

    async def list_prompts_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListPromptsResult:
        """Return one page of the prompts and the cursor of the next."""
        page: ListPromptsResult = await self._page("prompts/list", cursor, options)
        return page

    def iter_prompts(self, **options: Unpack[CallOptions]) -> AsyncIterator[Prompt]:
        """Iterate over all prompts, fetching pages as they are needed."""
        return self._iterate("prompts/list", options)

    async def _list(self, method: str, options: CallOptions) -> list[Any]:
        pages = await self._requests.pages(method, options)
        return [item for page in pages for item in self._items(method, page)]

    async def _page(self, method: str, cursor: str | None, options: CallOptions) -> Any:
        params = {} if cursor is None else {"cursor": cursor}
        page = await self._requests.request(method, params, options)
        result = self._decoded(method, page)
        if method == "tools/list":
            self._known_tools.learn(result.tools)
        return result

    async def _iterate(self, method: str, options: CallOptions) -> AsyncIterator[Any]:
        async for page in self._requests.walk(method, options):
            for item in self._items(method, page):
                yield item

    def _items(self, method: str, page: dict[str, Any]) -> list[Any]:
        """Decode one page of a list and return what it lists."""
        spec = find(method)
        assert spec is not None and spec.list_key is not None  # noqa: PT018 - no test
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in spec.list_key)
        items: list[Any] = getattr(self._decoded(method, page), snake)
        if method == "tools/list":
            self._known_tools.learn(items)
        return items

    def _decoded(self, method: str, page: dict[str, Any]) -> Any:
        result, lost = decode_repaired(_page_type(method), page)
        self._connection.malformed_members += len(lost)
        return result


def _page_type(method: str) -> type[WireType]:
    """Return the type of one page of a list."""
    from mcpwire import types

    spec = find(method)
    assert spec is not None and spec.result is not None  # noqa: PT018 - no test
    found: type[WireType] = getattr(types, spec.result)
    return found
