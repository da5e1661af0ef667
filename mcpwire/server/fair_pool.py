"""A bounded pool that is divided fairly among its clients.

Each item belongs to an owner: a principal, or the network of a client's address. If the
pool is full, the owner with the most items loses its least recently used one. An owner
with no more items than the owner of the new item loses none.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

Item = TypeVar("Item", bound="Hashable")

SCAN_LIMIT: Final = 64
"""How many items `FairPool.find_evictable` examines: thousands may be in use."""


class FairPool(Generic[Item]):
    """The items of one pool by owner, least recently used first.

    `add`, `touch`, `discard` and `count` take constant time. `find_evictable` sorts the
    different numbers of items per owner and examines `SCAN_LIMIT` items at most;
    `find_displaceable` does so up to three times.
    """

    def __init__(self) -> None:
        self._owners: dict[Item, Hashable] = {}
        self._items: dict[Hashable, dict[Item, None]] = {}
        # The owners by their number of items, and for each owner its rank of equals.
        self._ranks: dict[int, dict[Hashable, None]] = {}
        self._rank_of: dict[Hashable, dict[Hashable, None]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, item: object) -> bool:
        return item in self._owners

    def owner(self, item: Item) -> Hashable:
        """Return the owner of an item, which the pool must hold."""
        return self._owners[item]

    def count(self, owner: Hashable) -> int:
        """Return the number of items of one owner."""
        return len(self._items.get(owner, ()))

    def add(self, item: Item, owner: Hashable) -> None:
        """Add an item, which the pool must not hold, as just used."""
        self._owners[item] = owner
        items = self._items.setdefault(owner, {})
        self._move_rank(owner, len(items), len(items) + 1)
        items[item] = None

    def touch(self, item: Item) -> None:
        """Mark an item as just used, if the pool holds it."""
        if item in self._owners:
            owner = self._owners[item]
            items = self._items[owner]
            del items[item]
            items[item] = None
            # Of owners with equally many items, an idle one loses its items first.
            rank = self._rank_of[owner]
            del rank[owner]
            rank[owner] = None

    def discard(self, item: Item) -> None:
        """Remove an item, if the pool holds it."""
        if item not in self._owners:
            return
        owner = self._owners.pop(item)
        items = self._items[owner]
        self._move_rank(owner, len(items), len(items) - 1)
        del items[item]
        if not items:
            del self._items[owner]

    def clear(self) -> None:
        """Remove all items."""
        self._owners.clear()
        self._items.clear()
        self._ranks.clear()
        self._rank_of.clear()

    def find_evictable(
        self, owner: Hashable, may_evict: Callable[[Item], bool] = lambda _: True
    ) -> Item | None:
        """Return the item to evict for a new one of this owner.

        It is the least recently used item of the owner with the most, if that owner has
        more than this one; else this owner's own. ``None`` if the first 64 must stay;
        the next call examines others. `may_evict` must not change the pool.
        """
        for item in list(islice(self._candidates(owner), SCAN_LIMIT)):
            if may_evict(item):
                return item
            self.touch(item)
        return None

    def find_displaceable(
        self,
        owner: Hashable,
        is_idle: Callable[[Item], bool],
        may_end: Callable[[Item], bool] = lambda _: True,
    ) -> Item | None:
        """Return the item to end for a new one of this owner, or ``None``.

        An owner with more items than this owner loses an idle one, else a busy one.
        If there is no such owner, this owner loses an idle one of its own. Neither
        function may change the pool.
        """

        def is_other(item: Item) -> bool:
            return self._owners[item] != owner and may_end(item)

        rules: tuple[Callable[[Item], bool], ...] = (
            lambda item: is_other(item) and is_idle(item),
            is_other,
            lambda item: may_end(item) and is_idle(item),
        )
        matches = (self.find_evictable(owner, rule) for rule in rules)
        return next((item for item in matches if item is not None), None)

    def _candidates(self, owner: Hashable) -> Iterator[Item]:
        for size in sorted(self._ranks, reverse=True):
            if size > self.count(owner):
                for other in self._ranks[size]:
                    yield from self._items[other]
        yield from self._items.get(owner, ())

    def _move_rank(self, owner: Hashable, before: int, after: int) -> None:
        if before:
            rank = self._rank_of.pop(owner)
            del rank[owner]
            if not rank:
                del self._ranks[before]
        if after:
            rank = self._rank_of[owner] = self._ranks.setdefault(after, {})
            rank[owner] = None


def client_key(name: str, owner: Hashable) -> str:
    """Return a name, which has no full stop, with a digest of the owner's `repr`."""
    return f"{name}.{sha256(repr(owner).encode()).hexdigest()[:16]}"


def client_of(key: str) -> str:
    """Return the digest of a key's client; a plain name is a client of its own."""
    return key.rpartition(".")[2]
