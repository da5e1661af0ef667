"""The cost of tokens: a few function calls per call, none without a grant."""

import os
from collections import Counter
from pathlib import Path

from child_python import printed_by
from mcp_server import scripted_mcp

BOUND_S = 30.0

FRAMES = 7
"""Python functions that a call enters because of a grant."""

PROGRAM = """
import asyncio, gc, os, sys
import mcpwire
def counted(names):
    sys.setprofile(lambda frame, event, _: event == "call" and names.append(
        frame.f_code.co_qualname))
async def on_asyncio(target):
    async with mcpwire.Client(target) as client:
        for _ in range(20):
            await client.call_tool("echo", {"text": "hi"})
        gc.disable()
        for _ in range(10):
            names = []
            counted(names)
            await client.call_tool("echo", {"text": "hi"})
            sys.setprofile(None)
            yield names
async def gather(names):
    return [each async for each in names]
def run(target):
    return min(asyncio.run(gather(on_asyncio(target))), key=len)
"""


def run_python(code, *args):
    env = {**os.environ, "NO_PROXY": "*"}
    here = Path(__file__).parents[3]
    return printed_by("-c", PROGRAM + code, *args, cwd=here, env=env).split()


def test_grant_adds_few_function_calls_to_a_call(auth, session):
    auth.add_client("we", secret="SENTINEL-of-ours")
    given = "print(*run(mcpwire.Http(sys.argv[1], auth=sys.argv[2])))"
    granted = (
        "print(*run(mcpwire.Http(sys.argv[1], auth=mcpwire.ClientCredentials("
        "client_id='we', client_secret='SENTINEL-of-ours', issuer=sys.argv[2]))))"
    )
    token = auth.give()["access_token"]
    without = Counter(run_python(given, session.url, token))
    with_one = Counter(run_python(granted, session.url, auth.issuer))
    added = with_one - without
    assert "AuthSession.authorize" in added
    assert added.total() - (without - with_one).total() <= FRAMES, added


def test_calls_without_dpop_draw_no_random_bytes(auth, session):
    """Each draw is a system call."""
    program = """
drawn = []
usual, os.urandom = os.urandom, lambda count: drawn.append(count) or usual(count)
run(mcpwire.Http(sys.argv[1], auth=mcpwire.ClientCredentials(
    client_id='we', client_secret='SENTINEL-of-ours', issuer=sys.argv[2])))
print(*drawn)
"""
    auth.add_client("we", secret="SENTINEL-of-ours")
    drawn = run_python(program, session.url, auth.issuer)
    assert len(drawn) < 10  # for about thirty calls


def test_client_without_login_loads_no_auth_modules():
    loaded = "print(*(n for n in sys.modules if 'auth' in n and 'mcpwire' in n))"
    with scripted_mcp() as server:
        program = f"run(mcpwire.Http(sys.argv[1], auth='given'))\n{loaded}"
        assert run_python(program, server.url) == []
