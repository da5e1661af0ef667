"""Valid and invalid server certificates, and the TLS contexts for them."""

import datetime as dt
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trustme

AUTHORITY: Final = trustme.CA()
STRANGER: Final = trustme.CA()
PAST: Final = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
NAMES: Final = ("127.0.0.1", "localhost")

SERVERS: Final[Mapping[str, trustme.LeafCert]] = {
    "good": AUTHORITY.issue_cert(*NAMES),
    "expired": AUTHORITY.issue_cert(
        *NAMES, not_before=PAST, not_after=PAST + dt.timedelta(days=1)
    ),
    "other host": AUTHORITY.issue_cert("other.example"),
    "unknown authority": STRANGER.issue_cert(*NAMES),
    "self-signed": trustme.LeafCert(
        STRANGER.private_key_pem.bytes(), STRANGER.cert_pem.bytes(), []
    ),
}


def server_context(name="good", *, wants_client=False, version=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    SERVERS[name].configure_cert(context)
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        AUTHORITY.configure_trust(context)
    if version is not None:
        context.maximum_version = version
    return context


def client_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    return context


def ca_file(folder: Path) -> Path:
    AUTHORITY.cert_pem.write_to_path(folder / "ca.pem")
    return folder / "ca.pem"
