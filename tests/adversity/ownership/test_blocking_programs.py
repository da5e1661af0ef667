"""Programs with the blocking client that end, fork or are interrupted at any time."""

import pytest
from programs import LEFT_S, is_running, run, seconds_until

HEAD = """
import threading
import mcpwire.sync
from mcpwire.testing.leaks import children

SHORT = mcpwire.Limits(close_grace=0.1, terminate_grace=0.1)

def stubborn():
    return scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
        "handshake()\\nwhile True: time.sleep(60)"  # does not mind the end of its input
    )

def tell(client):
    say(*children())
    return client

def connected(**options):
    client = mcpwire.sync.Client(stubborn(), **options)
    client.connect()
    return tell(client)
"""

ENDINGS = {
    "the client is kept": "client = connected()\n",
    "with a reader of its own": "client = connected(background=True)\n",
    "a function forgets it": "def use():\n    connected()\nuse()\n",
    "a reference cycle holds it": "client = connected()\nclient.me = client\n",
    "a daemon thread calls": """
client = connected()
def call():
    with contextlib.suppress(mcpwire.ConnectionClosed):  # it may see its server's end
        client.call_tool("x")
threading.Thread(target=call, daemon=True).start()
while client.stats.requests < 3: time.sleep(0.01)
""",
    "sys.exit in the middle": """
with mcpwire.sync.Client(stubborn(), limits=SHORT) as client:
    tell(client)
    sys.exit(0)
""",
    "a generator holds it": """
def session():
    with mcpwire.sync.Client(stubborn(), limits=SHORT) as client:
        yield client
generator = session()
tell(next(generator))
""",
}


@pytest.mark.pain("P01", "P06")
@pytest.mark.fault("F41")
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_a_program_that_ends_is_silent_and_takes_its_server_along(ending):
    said, complained, code = run(HEAD + ending)
    assert (code, complained) == (0, "")
    pid = int(said)
    assert seconds_until(lambda: not is_running(pid)) < LEFT_S


@pytest.mark.pain("P07", "P12")
@pytest.mark.fault("F41")
@pytest.mark.parametrize(
    "doing",
    [
        "client.call_tool('x', timeout=None)",
        "client.close()",
        "mcpwire.sync.Client(scripted('recv()\\nrecv()'), timeout=None).connect()",
    ],
)
def test_an_interrupt_ends_the_program_and_reaps_the_server(doing):
    limits = "mcpwire.Limits(close_grace=3600.0, terminate_grace=3600.0)"
    body = (
        "from ctrl_c import interrupting\n"
        f"client = connected(limits={limits})\n"
        "with interrupting() as interrupt:\n"
        "    threading.Thread(target=interrupt).start()\n"
        "    try:\n"
        f"        {doing}\n"
        "    except KeyboardInterrupt:\n"
        "        say('interrupted')\n"
    )
    said, complained, code = run(HEAD + body)
    pid, *rest = said.splitlines()
    assert (rest, complained, code) == (["interrupted"], "", 0)
    assert seconds_until(lambda: not is_running(int(pid))) < LEFT_S


FORKING = """
exec(sys.argv[1])  # defines in_child(client)

client = mcpwire.sync.Client(echo(), timeout=30, background=sys.argv[2] == "reader")
client.connect()
assert client.call_tool("x", {"text": "before"}).text == "before"
pid = os.fork()
if pid == 0:
    in_child(client)
    sys.exit(0)  # through all finalisers
_, status = os.waitpid(pid, 0)
say("child:", os.waitstatus_to_exitcode(status))
for text in map(str, range(50)):
    assert client.call_tool("x", {"text": text}).text == text
say("requests:", client.stats.requests, client.stats.connections)
client.close()
"""

DOINGS = {
    "nothing": "def in_child(client): pass",
    "forgetting": """
def in_child(client):
    client.__del__()
    gc.collect()
""",
    "using": """
def in_child(given):
    for name, args in [("call_tool", ("x",)), ("list_tools", ()), ("ping", ()),
                       ("connect", ()), ("notify", ("x/y",)), ("close", ())]:
        try:
            getattr(given, name)(*args)
        except mcpwire.LocalProtocolError as error:
            assert "forked" in str(error), error
        else:
            raise AssertionError(name)
""",
    "connecting another": """
def in_child(client):
    with mcpwire.sync.Client(echo()) as own:
        assert own.call_tool("x", {"text": "mine"}).text == "mine"
""",
}


@pytest.mark.fault("F43")
@pytest.mark.pain("P11")
@pytest.mark.parametrize(
    ("doing", "reader"),
    [*((doing, "none") for doing in DOINGS.values()), (DOINGS["using"], "reader")],
    ids=[*DOINGS, "using, with a reader of its own"],
)
def test_whatever_a_forked_process_does_the_parents_session_goes_on(doing, reader):
    said, complained, code = run(HEAD + FORKING, doing, reader)
    assert (code, complained) == (0, "")
    assert said.splitlines() == ["child: 0", "requests: 53 1"]


OUTLIVED = """
target = scripted(
    "signal.signal(signal.SIGTERM, lambda *_: print('killed', file=sys.stderr))\\n"
    "handshake()\\n" + ECHO_LOOP,
    stderr=say,
)
client = mcpwire.sync.Client(target, limits=mcpwire.Limits(close_grace=30.0))
client.connect()
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(write)
    os.read(read, 1)  # until the parent is through
    os._exit(0)
client.close()
say("closed")
os.close(write)
os.waitpid(pid, 0)
"""


@pytest.mark.fault("F43")
def test_a_forked_process_that_lives_on_does_not_hold_the_servers_input_open():
    said, complained, code = run(HEAD + OUTLIVED)
    assert (code, complained, said) == (0, "", "closed\n")


EXECUTING = """
with mcpwire.sync.Client(echo()) as client:
    client.call_tool("x")
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-S", "-c",
            "import os; print(len(os.listdir('/proc/self/fd')))"])
    os.waitpid(pid, 0)
"""


@pytest.mark.fault("F43")
@pytest.mark.attack("S20")
def test_no_descriptor_of_ours_survives_an_exec():
    said, complained, code = run(HEAD + EXECUTING)
    # 0, 1, 2 and the one that lists the folder.
    assert (code, complained, said) == (0, "", "4\n")
