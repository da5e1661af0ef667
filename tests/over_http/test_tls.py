"""The TLS context of a target: trusted authorities and client certificates."""

import contextlib
import hashlib
import os
import socket
import ssl
import threading

import pytest
import trustme
from certifi import where
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import mcpwire
from mcpwire.errors import ConnectError
from mcpwire.transports.http.tls import ssl_context

URL = "https://localhost/mcp"
BOUND_S = 30.0
HUSH = "hush-hush"

AUTHORITY = trustme.CA()
OTHER = trustme.CA()
SERVER = AUTHORITY.issue_cert("localhost")
OURS = OTHER.issue_cert("me@host.example")


@pytest.fixture
def files(tmp_path):
    """Write files: authorities, the client certificate, its key, an encrypted key."""
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    OTHER.cert_pem.write_to_path(tmp_path / "other.pem")
    OURS.private_key_and_cert_chain_pem.write_to_path(tmp_path / "me.pem")
    OURS.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    OURS.private_key_pem.write_to_path(tmp_path / "key.pem")
    key = serialization.load_pem_private_key(OURS.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(HUSH.encode()),
    )
    (tmp_path / "locked.pem").write_bytes(locked)
    (tmp_path / "text.pem").write_text("no certificate\n")
    return tmp_path


class Seen:
    """What a TLS server recorded of one connection."""

    peer = None
    protocol = None
    version = None


def server_context(*, asks=False, newest=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    SERVER.configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    if asks:
        OTHER.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    if newest is not None:
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = newest
    return context


def shake(context, *, host="localhost", **server):
    """Handshake with a server and exchange a byte; return what the server recorded."""
    seen = Seen()
    serving = server_context(**server)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(BOUND_S)

        def serve():
            with contextlib.suppress(OSError):
                raw, _ = listener.accept()
                raw.settimeout(BOUND_S)
                with raw, serving.wrap_socket(raw, server_side=True) as connection:
                    seen.peer = connection.getpeercert()
                    seen.protocol = connection.selected_alpn_protocol()
                    seen.version = connection.version()
                    connection.sendall(b"!")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            address = listener.getsockname()
            with (
                socket.create_connection(address, timeout=BOUND_S) as raw,
                context.wrap_socket(raw, server_hostname=host) as connection,
            ):
                # The server checks a client certificate after the handshake (TLS 1.3).
                assert connection.recv(1) == b"!"
        finally:
            thread.join(BOUND_S)
    return seen


def context_of(**options):
    return ssl_context(mcpwire.Http(URL, **options))


@pytest.mark.pain("P28")
def test_authorities_of_ca_file_are_trusted(files):
    seen = shake(context_of(ca_file=files / "ca.pem"))
    assert seen.protocol == "http/1.1"
    assert seen.version == "TLSv1.3"


@pytest.mark.parametrize(
    ("ca_file", "host", "problem"),
    [
        ("other.pem", "localhost", None),
        (None, "localhost", None),
        ("ca.pem", "other.example", "ostname mismatch"),
    ],
    ids=["another authority", "no private authority", "another name"],
)
def test_server_without_a_trusted_certificate_is_refused(files, ca_file, host, problem):
    options = {} if ca_file is None else {"ca_file": files / ca_file}
    with pytest.raises(ssl.SSLCertVerificationError, match=problem):
        shake(context_of(**options), host=host)


def test_given_ssl_context_is_used_unchanged():
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert context_of(ssl=own) is own


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_authorities_of_ssl_cert_variables_are_trusted(files, name, monkeypatch):
    monkeypatch.setenv(name, trusted(name, files))
    shake(context_of())


def trusted(name, files):
    """Return a CA file, or a folder with OpenSSL's hashed names."""
    path = files / "ca.pem"
    if name == "SSL_CERT_FILE":
        return str(path)
    folder = files / "certs"
    folder.mkdir()
    (folder / f"{subject_hash():08x}.0").write_bytes(path.read_bytes())
    return f"{files / 'nowhere'}{os.pathsep}{folder}"


def subject_hash():
    """Return the hash of our authority's name, as `openssl x509 -hash` prints it."""
    certificate = x509.load_pem_x509_certificate(AUTHORITY.cert_pem.bytes())
    parts = b"".join(canonical(attribute) for attribute in certificate.subject)
    return int.from_bytes(hashlib.sha1(parts).digest()[:4], "little")


def canonical(attribute):
    """Encode one part of a name as OpenSSL compares it: in lower case, as UTF-8."""

    def tagged(tag, content):
        return bytes([tag, len(content)]) + content

    arc = int(attribute.oid.dotted_string.removeprefix("2.5.4."))
    oid = tagged(0x06, bytes([0x55, 0x04, arc]))
    text = tagged(0x0C, attribute.value.lower().encode())
    return tagged(0x31, tagged(0x30, oid + text))


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_trust_env_false_ignores_ssl_cert_variables(files, name, monkeypatch):
    monkeypatch.setenv(name, trusted(name, files))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(context_of(trust_env=False))


def use_system_store(monkeypatch, file, folder):
    paths = ssl.get_default_verify_paths()._replace(
        openssl_cafile=str(file), openssl_capath=str(folder)
    )
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)


def test_certifi_is_trusted_without_a_system_store(tmp_path, monkeypatch):
    use_system_store(monkeypatch, tmp_path / "cert.pem", tmp_path)
    context = context_of()
    assert context.cert_store_stats()["x509_ca"] > 50
    certifi = ssl.create_default_context(cafile=where())
    assert context.cert_store_stats() == certifi.cert_store_stats()


def test_system_store_may_be_a_directory(tmp_path, files, monkeypatch):
    folder = trusted("SSL_CERT_DIR", files).rpartition(os.pathsep)[2]
    use_system_store(monkeypatch, tmp_path / "cert.pem", folder)
    shake(context_of())


@pytest.mark.parametrize("engine", ["direct", "httpx"])
async def test_unusable_file_of_the_system_is_named(engine, files, monkeypatch):
    use_system_store(monkeypatch, files / "text.pem", files / "nowhere")
    target = mcpwire.Http("https://127.0.0.1:1/", engine=engine, trust_env=False)
    with pytest.raises(ConnectError, match=r"text\.pem' holds no certificate"):
        await mcpwire.Client(target).connect()


@pytest.mark.pain("P28")
@pytest.mark.parametrize(
    "parts",
    [("me.pem",), ("cert.pem", "key.pem"), ("cert.pem", "locked.pem", HUSH)],
    ids=len,
)
@pytest.mark.parametrize("trusts", ["ca_file", "SSL_CERT_FILE", "the system store"])
def test_client_certificate_works_with_each_source_of_trust(
    files, monkeypatch, parts, trusts
):
    options = {"client_cert": cert(files, parts)}
    if trusts == "ca_file":
        options["ca_file"] = files / "ca.pem"
    elif trusts == "SSL_CERT_FILE":
        monkeypatch.setenv("SSL_CERT_FILE", str(files / "ca.pem"))
    else:
        use_system_store(monkeypatch, files / "ca.pem", files / "nowhere")
    assert shake(context_of(**options)).peer is None
    seen = shake(context_of(**options), asks=True)
    assert seen.peer["subjectAltName"] == (("email", "me@host.example"),)


def cert(files, parts):
    paths = [files / part if part.endswith(".pem") else part for part in parts]
    return paths[0] if len(paths) == 1 else tuple(paths)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
def test_tls_below_1_2_is_refused(files):
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake(context_of(ca_file=files / "ca.pem"), newest=ssl.TLSVersion.TLSv1_1)
    shake(context_of(ca_file=files / "ca.pem"), newest=ssl.TLSVersion.TLSv1_2)


def test_context_for_http2_sets_no_alpn_protocols(files):
    seen = shake(context_of(ca_file=files / "ca.pem", http2=True))
    assert seen.protocol is None


def test_sslkeylogfile_is_written_unless_trust_env_is_false(files, monkeypatch):
    log = files / "keys.log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    shake(context_of(ca_file=files / "ca.pem", trust_env=False))
    assert not log.exists()
    shake(context_of(ca_file=files / "ca.pem"))
    assert "CLIENT_TRAFFIC_SECRET" in log.read_text()


@pytest.mark.pain("P28")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ca_file": "no.pem"}, "cannot read ca_file '{}/no.pem': No such file"),
        ({"ca_file": "."}, "cannot read ca_file '{}': Is a directory"),
        ({"ca_file": "text.pem"}, "ca_file '{}/text.pem' holds no certificate as PEM"),
        ({"client_cert": "no.pem"}, "cannot read client_cert '{}/no.pem': No such"),
        ({"client_cert": ("cert.pem", "no.pem")}, "cannot read client_cert '{}/no.pem"),
        (
            {"client_cert": "cert.pem"},
            "cannot use client_cert ['{}/cert.pem']: it holds no certificate and key",
        ),
        ({"client_cert": ("cert.pem", "ca.pem")}, "cannot use client_cert"),
        (
            {"client_cert": ("cert.pem", "locked.pem")},
            "'{}/locked.pem']: its key needs a password",
        ),
        (
            {"client_cert": ("cert.pem", "locked.pem", "wrong")},
            "cannot use client_cert",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_unusable_file_is_named_at_construction(files, options, message):
    given = {
        name: files / value
        if isinstance(value, str)
        else tuple(files / part if part.endswith(".pem") else part for part in value)
        for name, value in options.items()
    }
    with pytest.raises(ValueError) as caught:
        mcpwire.Http(URL, **given)
    assert message.format(files) in str(caught.value)
    assert HUSH not in str(caught.value)
    assert "wrong" not in str(caught.value)


def test_ssl_context_and_ca_file_exclude_each_other(files):
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ValueError, match="ssl= and ca_file= exclude each other"):
        mcpwire.Http(URL, ssl=own, ca_file=files / "ca.pem")


def test_file_removed_after_construction_is_a_connect_error(files):
    target = mcpwire.Http(URL, ca_file=files / "ca.pem")
    (files / "ca.pem").unlink()
    with pytest.raises(ConnectError, match=r"cannot read ca_file .*ca\.pem") as caught:
        ssl_context(target)
    assert caught.value.target == URL


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SSL_CERT_FILE", "cannot read SSL_CERT_FILE '/no/such/path': No such"),
        ("SSL_CERT_DIR", "cannot read SSL_CERT_DIR '/no/such/path': no such folder"),
        ("SSLKEYLOGFILE", "cannot write SSLKEYLOGFILE '/no/such/path': No such"),
    ],
)
@pytest.mark.parametrize("engine", ["direct", "httpx"])
async def test_unusable_path_in_a_variable_is_a_connect_error(
    name, message, engine, monkeypatch
):
    monkeypatch.setenv(name, "/no/such/path")
    target = mcpwire.Http("https://127.0.0.1:1/", engine=engine)
    with pytest.raises(ConnectError) as caught:
        await mcpwire.Client(target).connect()
    assert message in str(caught.value)


@pytest.mark.attack("S23")
def test_repr_does_not_show_the_key_password(files):
    target = mcpwire.Http(
        URL, client_cert=(files / "cert.pem", files / "locked.pem", HUSH)
    )
    assert HUSH not in repr(target)
    assert "locked.pem" in repr(target)
