"""A fake terminal user: types the lines of a test and records the output."""

import pytest

from mcpwire.cli.interactive import Dismissed, Requester
from mcpwire.versions import REVISIONS


class FakePerson:
    """Types the lines of a test; ``None`` is Ctrl-C."""

    width = 60

    def __init__(self, *typed):
        self.typed = list(typed)
        self.shown = []
        self.forgot_before = []

    @property
    def text(self):
        return "\n".join(self.shown)

    def strong(self, text):
        return f"*{text}*"

    def show(self, lines):
        self.shown += lines

    def discard_input(self):
        self.forgot_before.append(len(self.typed))

    async def prompt(self, prompt):
        self.shown.append(prompt)
        line = self.typed.pop(0)
        if line is None:
            raise Dismissed("cancel")
        return line


@pytest.fixture
def person():
    return FakePerson


@pytest.fixture
def requester():
    return Requester("drinks", "some-server --fast", REVISIONS[-2])
