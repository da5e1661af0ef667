"""Connections to real servers over each shell of the client."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from faces import FACES


@pytest.fixture(params=sorted(FACES))
def face(request):
    """Give one shell of the client, to be used as the asyncio one is."""
    face = FACES[request.param]()
    yield face
    face.close()


@pytest.fixture
def attach(connect, face):
    """Return `connect`, over each shell in turn."""
    connect.make = face
    return connect
