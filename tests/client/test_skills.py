"""Skills: listed, loaded and read, each file on demand."""

import asyncio
import base64
import contextlib
import sys
from hashlib import sha256

import pytest
from fakes import SILENCE, FakeServer
from hosting import hosted

import mcpwire
from mcpwire.protocol.methods import SKILLS

COMPLETE = {"resultType": "complete"}
KEPT = {**COMPLETE, "ttlMs": 0, "cacheScope": "private"}

ROOT = "skill://pdf"
URI = f"{ROOT}/SKILL.md"
FORMS = f"{ROOT}/references/FORMS.md"
LOGO = f"{ROOT}/assets/logo.bin"
DOCUMENT = b"---\nname: pdf\ndescription: Fills forms\n---\n\nDo it.\n"
FILES = {URI: DOCUMENT, FORMS: b"A form.\n", LOGO: b"\x00\xff"}


def listed(uri, data):
    digest = f"sha256:{sha256(data).hexdigest()}"
    return {"uri": uri, "digest": digest, "size": len(data)}


ENTRY = {
    "uri": URI,
    "frontmatter": {"name": "pdf", "description": "Fills forms"},
    "resources": [listed(uri, data) for uri, data in FILES.items()],
}


class SkillServer(FakeServer):
    """Serves one skill, which a test may modify, and records the reads."""

    def __init__(self, *, entry=ENTRY, files=None, settings=None, **options):
        self.entry = entry
        self.files = dict(FILES) if files is None else files
        options.setdefault("version", "2026-07-28")
        options.setdefault(
            "capabilities", {"resources": {}, "extensions": {SKILLS: settings or {}}}
        )
        methods = {
            "skills/list": lambda *_: {**KEPT, "skills": [self.entry]},
            "skills/get": self.get,
            "resources/read": self.read,
            "resources/directory/read": self.directory,
        }
        super().__init__(methods, **options)

    def get(self, params, _):
        if params["uri"] != self.entry["uri"]:
            return mcpwire.InvalidParams("no such skill")
        return {**KEPT, "skill": self.entry}

    def read(self, params, _):
        uri = params["uri"]
        data = self.files[uri]
        try:
            contents = {"uri": uri, "text": data.decode()}
        except UnicodeDecodeError:
            contents = {"uri": uri, "blob": base64.b64encode(data).decode()}
        return {**KEPT, "contents": [contents]}

    def directory(self, params, _):
        if params["uri"] != ROOT:
            return mcpwire.InvalidParams("no directory")
        if "cursor" not in params:
            child = {"uri": f"{ROOT}/assets", "name": "assets"}
            child["mimeType"] = "inode/directory"
            return {**COMPLETE, "resources": [child], "nextCursor": "2"}
        assert params["cursor"] == "2"
        return {**COMPLETE, "resources": [{"uri": URI, "name": "SKILL.md"}]}

    @property
    def reads(self):
        return [params["uri"] for params in self.requests("resources/read")]


@pytest.fixture(params=["memory", "http"])
def client(request):
    @contextlib.asynccontextmanager
    async def connected(server, extensions=(SKILLS,), **options):
        with contextlib.ExitStack() as stack:
            target = server
            if request.param == "http":
                target = stack.enter_context(hosted(server)).url
            async with mcpwire.Client(target, extensions=extensions, **options) as made:
                yield made

    return connected


# --- success


@pytest.mark.rule("EXT-03")
async def test_listing_reads_no_file(client):
    server = SkillServer()
    async with client(server) as c:
        (skill,) = await c.list_skills()
        page = await c.list_skills_page()
        assert [skill async for skill in c.iter_skills()] == page.skills == [skill]
        assert await c.get_skill(URI) == skill
    assert (skill.uri, skill.name, skill.description) == (URI, "pdf", "Fills forms")
    assert [file.uri for file in skill.resources] == list(FILES)
    assert server.reads == []


@pytest.mark.parametrize("by", ["entry", "uri"])
async def test_loading_reads_the_document_and_other_files_on_demand(client, by):
    server = SkillServer()
    async with client(server) as c:
        (entry,) = await c.list_skills()
        skill = await c.load_skill(entry if by == "entry" else URI)
        assert server.reads == [URI]
        assert skill.entry == entry
        assert (skill.uri, skill.name) == (URI, "pdf")
        assert skill.description == "Fills forms"
        assert skill.frontmatter == "name: pdf\ndescription: Fills forms\n"
        assert skill.body == "\nDo it.\n"
        assert skill.files == list(FILES)
        assert await skill.read_text("references/FORMS.md") == "A form.\n"
        assert server.reads == [URI, FORMS]
        assert await skill.read_file(LOGO, timeout=30) == b"\x00\xff"
        with pytest.raises(mcpwire.LocalProtocolError, match="is not text in UTF-8"):
            await skill.read_text(LOGO)
        with pytest.raises(mcpwire.SkillError, match="has no such file") as caught:
            await skill.read_file("../other/SKILL.md")
        error = caught.value
        assert (error.rule, error.skill) == ("files", URI)
        assert error.uri == "../other/SKILL.md"
        assert await skill.read_file(LOGO) == b"\x00\xff"  # it stays usable
    assert server.reads == [URI, FORMS, LOGO, LOGO, LOGO]
    assert len(server.requests("skills/get")) == (by == "uri")


async def test_a_dynamic_skill_is_read_without_digests(client):
    server = SkillServer(entry={**ENTRY, "resources": "dynamic"})
    async with client(server) as c:
        skill = await c.load_skill(URI)
        assert skill.files is None
        assert await skill.read_text("references/FORMS.md") == "A form.\n"


async def test_a_directory_is_read_page_by_page(client):
    server = SkillServer(settings={"directoryRead": True})
    async with client(server) as c:
        found = await c.read_directory(ROOT)
        with pytest.raises(mcpwire.InvalidParams):
            await c.read_directory(URI)
    assert [(r.uri, r.mime_type) for r in found] == [
        (f"{ROOT}/assets", "inode/directory"),
        (URI, None),
    ]


def test_the_repr_of_a_loaded_skill_is_one_line():
    async def shown():
        async with mcpwire.Client(SkillServer(), extensions=[SKILLS]) as c:
            return repr(await c.load_skill(URI))

    assert asyncio.run(shown()) == f"<mcpwire.LoadedSkill 'pdf' of '{URI}'>"


# --- failures


def without(key):
    return {**ENTRY, "frontmatter": {**ENTRY["frontmatter"], key: ""}}


def with_file(**members):
    return {**ENTRY, "resources": [{**ENTRY["resources"][0], **members}]}


ENTRIES = {
    "name": {**ENTRY, "frontmatter": {"name": "PDF", "description": "x"}},
    "description": without("description"),
    "uri": {**ENTRY, "uri": f"{ROOT}/README.md"},
    "files": with_file(uri="file:///etc/passwd"),
    "format": with_file(digest="sha256:0"),
    "limit": with_file(size=2**40),
}


@pytest.mark.rule("EXT-05")
@pytest.mark.parametrize("rule", ENTRIES)
async def test_a_skill_with_an_invalid_entry_is_not_read(client, rule):
    server = SkillServer(entry=ENTRIES[rule])
    async with client(server) as c:
        (skill,) = await c.list_skills()
        for how in (skill, skill.uri):
            with pytest.raises(mcpwire.SkillError) as caught:
                await c.load_skill(how)
            assert (caught.value.rule, caught.value.skill) == (rule, skill.uri)
    assert server.reads == []


OTHER = DOCUMENT.replace(b"Fills forms", b"Sends forms")
DOCUMENTS = {
    "size": (ENTRY, DOCUMENT + b"x"),
    "digest": (ENTRY, DOCUMENT.replace(b"Do it.", b"Do not")),
    "frontmatter": (
        {**ENTRY, "resources": [listed(URI, OTHER), *ENTRY["resources"][1:]]},
        OTHER,
    ),
}


@pytest.mark.rule("EXT-05")
@pytest.mark.parametrize("rule", DOCUMENTS)
async def test_a_changed_document_is_refused_before_other_files(client, rule):
    entry, data = DOCUMENTS[rule]
    server = SkillServer(entry=entry, files={**FILES, URI: data})
    async with client(server) as c:
        (skill,) = await c.list_skills()
        with pytest.raises(mcpwire.SkillError) as caught:
            await c.load_skill(skill)
    assert (caught.value.rule, caught.value.uri) == (rule, URI)
    assert server.reads == [URI]


@pytest.mark.parametrize(
    ("data", "rule"),
    [(b"A form!\n", "digest"), (b"", "size"), (b"A form.\n\n", "size")],
)
async def test_after_a_changed_file_no_other_file_is_read(client, data, rule):
    server = SkillServer(files={**FILES, FORMS: data})
    async with client(server) as c:
        skill = await c.load_skill(URI)
        with pytest.raises(mcpwire.SkillError) as caught:
            await skill.read_file(FORMS)
        assert (caught.value.rule, caught.value.uri) == (rule, FORMS)
        with pytest.raises(mcpwire.LocalProtocolError, match="load it again"):
            await skill.read_file(LOGO)
        assert server.reads == [URI, FORMS]
        server.files[FORMS] = FILES[FORMS]
        again = await c.load_skill(URI)
        assert await again.read_file(FORMS) == FILES[FORMS]


@pytest.mark.rule("EXT-05")
async def test_a_file_received_after_a_changed_one_is_refused(client):
    """Of two files that are read concurrently the first response is wrong."""
    server = SkillServer(files={**FILES, FORMS: b"A form!\n"})
    held = {}

    def read(params, _):
        if params["uri"] != LOGO:
            return server.read(params, _)
        held.update(server.current)
        return SILENCE

    def get(params, _):
        if held:  # the held response is sent with the next request
            answer = {"id": held["id"], "result": server.read({"uri": LOGO}, None)}
            server.send({"jsonrpc": "2.0", **answer})
        return server.get(params, _)

    server.methods |= {"resources/read": read, "skills/get": get}
    async with client(server) as c:
        skill = await c.load_skill(URI)
        logo = asyncio.create_task(skill.read_file(LOGO))
        while not held:  # noqa: ASYNC110 - a server's thread tells no loop
            await asyncio.sleep(0.001)  # until it has the request
        with pytest.raises(mcpwire.SkillError):
            await skill.read_file(FORMS)
        await c.get_skill(URI)
        with pytest.raises(mcpwire.LocalProtocolError, match="load it again"):
            await logo


async def test_a_read_with_several_contents_is_refused(client):
    server = SkillServer()
    one = {"uri": URI, "text": DOCUMENT.decode()}
    server.methods["resources/read"] = lambda *_: {**KEPT, "contents": [one, one]}
    async with client(server) as c:
        with pytest.raises(mcpwire.SkillError, match="2 contents, not one"):
            await c.load_skill(URI)


async def test_a_get_result_for_another_skill_is_refused(client):
    server = SkillServer()
    server.methods["skills/get"] = lambda *_: {**KEPT, "skill": ENTRY}
    async with client(server) as c:
        with pytest.raises(mcpwire.InvalidMessage) as caught:
            await c.load_skill("skill://other/SKILL.md")
    assert caught.value.path == "GetSkillResult.skill.uri"
    assert server.reads == []


async def test_an_unknown_skill_is_the_servers_error(client):
    async with client(SkillServer()) as c:
        with pytest.raises(mcpwire.InvalidParams, match="no such skill"):
            await c.load_skill("skill://other/SKILL.md")


# --- requirements

VERBS = {
    "list_skills": (),
    "list_skills_page": (),
    "iter_skills": (),
    "get_skill": (URI,),
    "load_skill": (URI,),
    "read_directory": (ROOT,),
}
OFF = {
    "not asked for": ({}, None, "this client was made without the extension"),
    "not declared": (
        {"capabilities": {"resources": {}}},
        [SKILLS],
        "the server did not declare 'io.modelcontextprotocol/skills'",
    ),
    "too old": (
        {"version": "2025-11-25"},
        [SKILLS],
        "speaks 2025-11-25, not 2026-07-28",
    ),
}


async def use(client, verb):
    found = getattr(client, verb)(*VERBS[verb])
    return await (anext(found) if verb == "iter_skills" else found)


HANDSHAKE = {"server/discover", "initialize", "notifications/initialized"}


@pytest.mark.rule("EXT-02", "EXT-03")
@pytest.mark.parametrize("why", OFF)
@pytest.mark.parametrize("verb", VERBS)
async def test_skill_methods_need_the_extension(verb, why):
    options, extensions, message = OFF[why]
    server = SkillServer(**options)
    async with mcpwire.Client(server, extensions=extensions) as c:
        with pytest.raises(mcpwire.LocalProtocolError, match=message):
            await use(c, verb)
    # The last handshake message may arrive later: the client does not wait for it.
    assert {m["method"] for m in server.received} <= HANDSHAKE


async def test_loading_an_entry_needs_the_extension():
    server = SkillServer()
    async with mcpwire.Client(server, extensions=[SKILLS]) as c:
        (entry,) = await c.list_skills()
    async with mcpwire.Client(server) as c:
        with pytest.raises(mcpwire.LocalProtocolError, match="without the extension"):
            await c.load_skill(entry)
    assert server.reads == []


async def test_a_directory_needs_its_own_declaration():
    server = SkillServer()
    async with mcpwire.Client(server, extensions=[SKILLS]) as c:
        with pytest.raises(mcpwire.LocalProtocolError, match="'directoryRead'"):
            await c.read_directory(ROOT)
    assert server.requests("resources/directory/read") == []


async def test_loading_without_pyyaml_sends_no_request(monkeypatch):
    server = SkillServer()
    async with mcpwire.Client(server, extensions=[SKILLS]) as c:
        sent = len(server.received)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "yaml", None)
            with pytest.raises(mcpwire.LocalProtocolError, match="pip install PyYAML"):
                await c.load_skill(URI)
        assert len(server.received) == sent


def test_the_blocking_client_has_its_own_loaded_skills():
    server = SkillServer()
    with mcpwire.sync.Client(server, extensions=[SKILLS]) as c:
        (entry,) = c.iter_skills()
        skill = c.load_skill(entry)
        assert type(skill) is mcpwire.sync.LoadedSkill
        assert skill.read_file(LOGO)
    assert server.reads[-1].endswith(LOGO)
