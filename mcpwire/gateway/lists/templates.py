"""Whose resource a URI may be that nobody lists: who has a template that gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.wire.uri_template import (
    TemplateError,
    UriMatcher,
    UriTemplate,
    encode_literal,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.gateway.merging import Merged

__all__ = ["TemplateOwners"]


class TemplateOwners:
    """The templates of a merged list, ready to be held against URIs."""

    def __init__(self, templates: Merged) -> None:
        tests: dict[str, Callable[[str], bool]] = {}
        self._tests: list[tuple[str, Callable[[str], bool]]] = []
        for server, template in templates.names:
            if template not in tests:
                tests[template] = _test(template)
            self._tests.append((server, tests[template]))

    def of(self, uri: str) -> list[str]:
        """Return the servers that have a template for a URI, each once, in order."""
        found = (server for server, fits in self._tests if fits(uri))
        return list(dict.fromkeys(found))


def _test(text: str) -> Callable[[str], bool]:
    """Return what tells whether a template gives a URI; rather yes than no."""
    try:
        template = UriTemplate(text)
    except TemplateError:
        return lambda uri: uri == text
    try:
        # What may be in a value is for the server to say.
        matcher = UriMatcher(template, unchecked=template.names)
    except TemplateError:
        first = template.parts[0] if template.parts else ""
        beginning = encode_literal(first) if isinstance(first, str) else ""
        return lambda uri: uri.startswith(beginning)
    return lambda uri: matcher.match(uri) is not None
