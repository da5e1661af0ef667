"""Feeds one byte stream to a decoder in every way that a peer may deliver it."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol


class Decoder(Protocol):
    """Anything that takes bytes and returns the items that they complete."""

    def feed(self, data: bytes) -> Sequence[Any]: ...


def feed_all(decoder: Decoder, chunks: Iterable[bytes]) -> list[Any]:
    return [item for chunk in chunks for item in decoder.feed(chunk)]


def deliver_three_ways(
    make: Callable[[], Decoder], stream: bytes, *, begun: bytes, ended: bytes
) -> dict[str, list[Any]]:
    """Return the items of a stream fed whole, byte by byte, and followed by more.

    `begun` starts an item that does not end with the stream and `ended` ends it; the
    item of `ended` is left out, so all three lists should be equal.
    """
    single = [stream[index : index + 1] for index in range(len(stream))]
    followed = make()
    with_next = list(followed.feed(stream + begun))
    assert len(followed.feed(ended)) == 1
    return {
        "whole": feed_all(make(), [stream]),
        "byte by byte": feed_all(make(), single),
        "with a next one behind": with_next,
    }


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    """Return the data in pieces, cut at these positions, in any order and range."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[a:b] for a, b in pairwise(places)]
