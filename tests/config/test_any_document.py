"""Any document gives a configuration or one `ConfigError`."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentinel import SENTINEL

from mcpwire.config import ConfigError, Configuration, load
from mcpwire.config.schema import FIELDS

SECRET = st.sampled_from(
    [
        SENTINEL,
        f"{SENTINEL} ${{NONE}}",
        f"${{{SENTINEL}",
        f"${{a b{SENTINEL}}}",
        f"{SENTINEL}\n",
        f"\0{SENTINEL}",
        "${SECRET}",
        "${LINE}",
    ]
)
TEXT = st.sampled_from(["", "x", "oauth", "${SET}", "${NONE:-y}", "mutating", "http"])
SCALAR = st.one_of(TEXT, st.none(), st.booleans(), st.integers(-1, 70_000), st.floats())
ANY = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["x", "type", "token_env"]), inner, max_size=2),
    ),
    max_leaves=4,
)
URL = st.builds(
    "{}{}{}".format,
    st.sampled_from(
        ["https://h.example/", "http://h.example/", "h.example", "ftp://h/"]
    ),
    st.sampled_from(["mcp", "mcp#x", "m p", ""]),
    st.builds("?{}".format, SECRET),
)
LOGIN = st.dictionaries(
    st.sampled_from(["client_secret", "private_key_pem", "token", "id_token"]),
    SECRET,
    max_size=2,
)
SECRETS = {
    "env": st.dictionaries(st.sampled_from(["K", "", "A=B"]), SECRET, max_size=2),
    "headers": st.dictionaries(
        st.sampled_from(["Authorization", "x y", "X-K", "Host"]), SECRET, max_size=2
    ),
    "auth": st.one_of(
        SECRET,
        st.builds(
            lambda login, kind: {**login, "type": kind, "client_id": "me"},
            LOGIN,
            st.sampled_from(["oauth", "client_credentials", "enterprise_managed", "x"]),
        ),
        LOGIN,
    ),
    "url": URL,
    "proxy": st.builds("http://me:{}@p.example".format, SECRET),
}
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        **{name: ANY for name in FIELDS if name != "name"},
        **{name: st.one_of(given, ANY) for name, given in SECRETS.items()},
        "serverUrl": URL,
        "unknown": ANY,
    },
)
SOUND = st.one_of(
    st.fixed_dictionaries(
        {"command": st.just("c")}, optional={"env": SECRETS["env"], "timeout": SCALAR}
    ),
    st.fixed_dictionaries(
        {"url": URL},
        optional={name: SECRETS[name] for name in ("headers", "auth", "proxy")},
    ),
    ENTRY,
)
DOCUMENT = st.one_of(
    st.builds(lambda entry: {"mcpServers": {"a": entry}}, SOUND),
    st.builds(lambda entry: [{"name": "a", **entry}], SOUND),
    st.dictionaries(st.sampled_from(["servers", "mcpServers", "mcp"]), ANY, max_size=2),
    ANY.filter(lambda value: not isinstance(value, str)),
)
VARIABLES = {"SET": "set", "SECRET": SENTINEL, "LINE": f"a\n{SENTINEL}"}


@pytest.mark.system("L-V11")
@settings(deadline=None)  # a first import takes its time
@given(DOCUMENT)
def test_document_gives_a_configuration_or_one_error_without_secrets(document):
    try:
        found = load(document, environment=VARIABLES)
    except ConfigError as error:
        shown = f"{error} {error!r} {error.__cause__!r} {vars(error)}"
        lines = str(error).splitlines()
    else:
        assert isinstance(found, Configuration)
        lines = ["configured"]
        shown = f"{found!r} {found.raw!r}"
        for entry in found.enabled.values():
            shown += f" {entry.to_target()!r} {entry.to_target()}"
            with contextlib.suppress(TypeError):  # an invalid pattern
                shown += repr(entry.to_member())
    assert SENTINEL not in shown
    assert len(lines) == 1
