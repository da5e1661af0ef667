"""Annotations that many wire types share; only `spec` imports them at run time."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from mcpwire.types._codec.base import JsonObject
from mcpwire.types._codec.spec import Spec

__all__ = [
    "CacheScope",
    "Extra",
    "Meta",
    "MetaOfTypes",
    "Raw",
    "RequestMeta",
    "ResultType",
    "Title",
    "TtlMs",
]

Meta: TypeAlias = JsonObject | None
"""``_meta``; results and notifications have had it from the start."""

MetaOfTypes: TypeAlias = Annotated[JsonObject | None, Spec("2025-06-18")]
"""``_meta`` of the types inside results."""

RequestMeta: TypeAlias = Annotated[JsonObject | None, Spec(required=("2026-07-28",))]
"""``_meta`` of a request."""

Extra: TypeAlias = JsonObject | None
"""The members that the type does not know, ``None`` when there are none."""

Raw: TypeAlias = JsonObject | None
"""The decoded JSON object itself; ``None`` when the result was made here."""

Title: TypeAlias = Annotated[str | None, Spec("2025-06-18")]
"""A name for people."""

# 2026-07-28 basic/index, "ResultType": absent means "complete".
ResultType: TypeAlias = Annotated[str, Spec("2026-07-28", required=("2026-07-28",))]
"""What kind of result this is."""

# 2026-07-28 server/utilities/caching: absent means stale at once.
TtlMs: TypeAlias = Annotated[int | None, Spec("2026-07-28", required=("2026-07-28",))]
"""For how many milliseconds the result may be used again."""

KnownScope: TypeAlias = Literal["public", "private"]

CacheScope: TypeAlias = Annotated[
    KnownScope | str | None,
    Spec("2026-07-28", required=("2026-07-28",)),
]
"""Who may use the result again."""
