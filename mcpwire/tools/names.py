"""Unique names for the tools of many servers.

A `NamePolicy` makes the names, a `NameTable` maps them to their owners. Names are
looked up and never parsed: a server's or tool's name may contain any text.

A name depends on the names of server and tool, and on whether another tool would get
the same name. So it is the same for any order of servers, after a restart, and when a
server without a collision is added.
"""

from __future__ import annotations

import re
from collections import Counter
from string import Formatter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from mcpwire.errors import NameCollision
from mcpwire.limits import choice_validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Self

Owner: TypeAlias = tuple[str, str]
"""The name of a server in the group, and the server's name of the tool."""

OnCollision: TypeAlias = Literal["suffix", "raise", "first"]

MIN_LENGTH: Final = 16
"""The least `max_length`: a shorter name has no room for a useful hash."""

HASH_LENGTHS: Final = (8, 16, 32, 64)
"""How many digits of the hash a name gets; more if fewer are not unique."""

RESERVED: Final = ""
"""The server of a reserved name."""


@attrs.frozen
class Collision:
    """Tools that would get the same name."""

    name: str
    """The name."""

    owners: tuple[Owner, ...]
    """The tools; the server of a reserved name is empty."""

    resolution: Literal["suffix", "first"]
    """Each tool got its own suffix, or only the first got the name."""

    def __str__(self) -> str:
        owners = ", ".join(f"{tool!r} of {server!r}" for server, tool in self.owners)
        return f"{self.name!r} would be {owners}: {self.resolution}"


@attrs.frozen
class NameTable:
    """A two-way map of names and their owners; iterates over the names."""

    _owners: Mapping[str, Owner]
    _names: Mapping[Owner, str]

    collisions: tuple[Collision, ...] = ()
    """The collisions and their resolutions."""

    shortened: tuple[str, ...] = ()
    """The names that were shortened."""

    def name_of(self, server: str, tool: str) -> str | None:
        """Return the name of a server's tool, or ``None`` if it has none."""
        return self._names.get((server, tool))

    def find(self, name: str) -> Owner | None:
        """Return the owner of a name, or ``None``."""
        return self._owners.get(name)

    def __len__(self) -> int:
        return len(self._owners)

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners)


def _check_length(_: NamePolicy, __: object, value: int | None) -> None:
    if value is not None and (type(value) is not int or value < MIN_LENGTH):
        raise ValueError(
            f"max_length must be {MIN_LENGTH} or more, or None, got {value!r}"
        )


def _check_charset(_: NamePolicy, __: object, value: str) -> None:
    try:
        outside = re.compile(f"[^{value}]")
    except re.error as error:
        raise ValueError(
            f"charset must be the inside of a character class, got {value!r}: {error}"
        ) from error
    if outside.search("0123456789abcdef_"):
        raise ValueError(f"charset must have 0-9, a-f and '_', got {value!r}")


def _check_normalise(_: NamePolicy, __: object, value: object) -> None:
    if value not in ("ascii", "none") and not callable(value):
        raise ValueError(
            f"normalise must be 'ascii', 'none' or a function, got {value!r}"
        )


@attrs.frozen
class NamePolicy:
    """The rules that make the names of tools of many servers.

    Args:
        template: The name, with ``{tool}`` and optionally ``{server}`` in it: the
            server's name in the group, not the name in its `serverInfo`.
        normalise: ``"ascii"``: characters outside `charset` become ``_``. A function:
            takes the server's or the tool's name and returns the text to use, which is
            then treated the same way. ``"none"``: names are used unchanged.
        max_length: In characters, at least 16; ``None``: no limit. A longer name keeps
            its beginning and its end, which mostly differ, around a hash.
        charset: The inside of a regular expression's character class.
        on_collision: ``"suffix"``: each of the tools with the same name gets its own
            suffix, which depends only on its server and its name. ``"raise"``: raises
            `NameCollision`. ``"first"``: the first tool gets the name, the others get
            none. `NameTable.collisions` has the collisions in each case.

    Raises:
        ValueError: An argument is out of range; the message names it.
    """

    template: str = "mcp__{server}__{tool}"
    normalise: Literal["ascii", "none"] | Callable[[str], str] = attrs.field(
        default="ascii", kw_only=True, validator=_check_normalise
    )
    max_length: int | None = attrs.field(
        default=64, kw_only=True, validator=_check_length
    )
    charset: str = attrs.field(
        default="A-Za-z0-9_-", kw_only=True, validator=_check_charset
    )
    on_collision: OnCollision = attrs.field(
        default="suffix",
        kw_only=True,
        validator=choice_validator("suffix", "raise", "first"),
    )

    def __attrs_post_init__(self) -> None:
        fields = []
        for literal, field, form, conversion in _parse_template(self.template):
            if self._clean(literal) != literal:
                raise ValueError(
                    f"template has what charset lacks, in {literal!r} of "
                    f"{self.template!r}"
                )
            fields.append(field)
            if form or conversion or field not in (None, "server", "tool"):
                raise ValueError(
                    "template may have {server} and {tool} and nothing else in "
                    f"braces, got {self.template!r}"
                )
        if "tool" not in fields:
            raise ValueError(f"template must have {{tool}}, got {self.template!r}")

    @classmethod
    def claude(cls) -> Self:
        """Return the default: ``mcp__{server}__{tool}``."""
        return cls()

    @classmethod
    def plain(cls) -> Self:
        """Return ``{server}__{tool}``."""
        return cls("{server}__{tool}")

    @classmethod
    def proxy(cls) -> Self:
        """Return ``{server}_{tool}``."""
        return cls("{server}_{tool}")

    @classmethod
    def bare(cls) -> Self:
        """Return ``{tool}``, without the server."""
        return cls("{tool}")

    def table(
        self,
        owners: Iterable[Owner],
        *,
        labels: Mapping[Owner, str] | None = None,
        servers: Mapping[str, str] | None = None,
        reserved: Iterable[str] = (),
    ) -> NameTable:
        """Return the names of tools; duplicates in `owners` count once.

        Args:
            owners: Server and tool of each.
            labels: Texts for the template in place of some tools' names.
            servers: Texts for the template in place of some servers' names.
            reserved: Names that no tool may get.

        Raises:
            NameCollision: Two tools would get the same name, and `on_collision` is
                ``"raise"``.
        """
        tool_labels, server_labels = labels or {}, servers or {}
        full = {
            (server, tool): self.template.format(
                server=self._name_part(server_labels.get(server, server)),
                tool=self._name_part(tool_labels.get((server, tool), tool)),
            )
            for server, tool in owners
        }
        reserved_names = frozenset(reserved)
        level = dict.fromkeys(full, 0)
        names = {owner: self._fit(full[owner], owner, 0) for owner in full}
        collisions: list[Collision] = []
        while collided := _find_collisions(names, reserved_names):
            for name, claimants in collided.items():
                reserved_owner = [(RESERVED, name)] if name in reserved_names else []
                all_owners = (*reserved_owner, *claimants)
                # A name with its whole hash stays, and the other tool's name changes:
                # no server may block the names of others.
                full_hash_owners = [
                    o for o in claimants if level[o] == len(HASH_LENGTHS)
                ]
                is_fatal = len(full_hash_owners) > 1 or bool(
                    full_hash_owners and reserved_owner
                )
                if self.on_collision == "raise" or is_fatal:
                    raise NameCollision(name, owners=all_owners)
                collisions.append(Collision(name, all_owners, self.on_collision))
                if self.on_collision == "first":
                    for owner in claimants if reserved_owner else claimants[1:]:
                        del names[owner]
                    continue
                for owner in claimants:
                    if owner not in full_hash_owners:
                        level[owner] += 1
                        names[owner] = self._fit(full[owner], owner, level[owner])
        limit = self.max_length
        return NameTable(
            {name: owner for owner, name in names.items()},
            names,
            tuple(collisions),
            tuple(n for o, n in names.items() if limit and len(full[o]) > limit),
        )

    def _name_part(self, text: str) -> str:
        if callable(self.normalise):
            text = self.normalise(text)
        return self._clean(text)

    def _clean(self, text: str) -> str:
        if self.normalise == "none":
            return text
        return re.sub(f"[^{self.charset}]", "_", text)

    def _fit(self, full: str, owner: Owner, level: int) -> str:
        """Return a name within the limit; at levels above 0 with a hash."""
        limit = self.max_length
        fits = limit is None or len(full) <= limit
        if level == 0 and fits and full:
            return full
        digits = _hash(owner)[: HASH_LENGTHS[max(level, 1) - 1]]
        suffixed = f"{full}_{digits}"
        if limit is None or len(suffixed) <= limit:
            return suffixed
        room = limit - len(digits) - 2
        if room < 2:
            return digits[:limit]
        # Long names mostly differ at their end.
        head = room // 3
        return f"{full[:head]}_{digits}_{full[head - room :]}"


def _find_collisions(
    names: Mapping[Owner, str], reserved: frozenset[str]
) -> dict[str, list[Owner]]:
    """Return the owners of each name that is reserved or has several."""
    owners: dict[str, list[Owner]] = {}
    for owner, name in names.items():
        owners.setdefault(name, []).append(owner)
    return {
        name: claimants
        for name, claimants in owners.items()
        if len(claimants) > 1 or name in reserved
    }


def server_labels(infos: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return names for servers from the name and version of each `serverInfo`.

    ``_`` and ``.`` become ``-``. Servers with the same name get ``-VERSION`` appended,
    those with the same name and version a number, in order.
    """
    names = {key: re.sub("[_.]", "-", name) for key, (name, _) in infos.items()}
    count = Counter(names.values())
    for key, (_, version) in infos.items():
        if count[names[key]] > 1:
            names[key] += "-" + re.sub("[_.]", "-", version)
    count = Counter(names.values())
    numbers: Counter[str] = Counter()
    for key, name in names.items():
        if count[name] > 1:
            numbers[name] += 1
            names[key] = f"{name}-{numbers[name]}"
    return names


def _parse_template(
    template: str,
) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    try:
        yield from Formatter().parse(template)
    except ValueError as error:
        raise ValueError(
            f"template is not a format string, got {template!r}: {error}"
        ) from error


def _hash(owner: Owner) -> str:
    """Return the hash of server and tool: 64 hexadecimal digits."""
    import hashlib

    server, tool = owner
    # The length marks where the server's name ends.
    text = f"{len(server)}:{server}{tool}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
