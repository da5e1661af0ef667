"""The TLS context of a target: trusted authorities and the client certificate.

The first available source is used: the context in `ssl`, the target's `ca_file`,
``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, the system's store, and certifi's list if the
system has none. The client certificate is added to each but the context in `ssl`.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from mcpwire.errors import ConnectError

if TYPE_CHECKING:
    from mcpwire.transports.http.target import ClientCert, Http


def ssl_context(target: Http) -> ssl.SSLContext:
    """Return the context for connections to a target; read its files again."""
    if target.ssl is not None:
        return target.ssl
    try:
        return _make_context(target)
    except ValueError as error:
        raise ConnectError(str(error), target=str(target)) from error


def check_files(target: Http) -> None:
    """Load the target's certificate files; raise a `ValueError` if one is unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if target.ca_file is not None:
        _trust_file(context, target.ca_file, "ca_file")
    if target.client_cert is not None:
        _load_client_cert(context, target.client_cert)


def _make_context(target: Http) -> ssl.SSLContext:
    # Not `ssl.create_default_context`: its settings depend on the Python version.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not target.http2:
        context.set_alpn_protocols(["http/1.1"])
    if target.ca_file is not None:
        _trust_file(context, target.ca_file, "ca_file")
    elif not (target.trust_env and _trust_environment(context)):
        _trust_system(context)
    if target.client_cert is not None:
        _load_client_cert(context, target.client_cert)
    keys = os.environ.get("SSLKEYLOGFILE")
    if keys and target.trust_env:
        try:
            context.keylog_filename = keys
        except OSError as error:
            text = f"cannot write SSLKEYLOGFILE {keys!r}: {_reason(error)}"
            raise ValueError(text) from error
    return context


def _trust_file(context: ssl.SSLContext, path: str, option: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise ValueError(f"{option} {path!r} holds no certificate as PEM") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {option} {path!r}: {_reason(error)}") from error


def _trust_environment(context: ssl.SSLContext) -> bool:
    """Trust the paths in OpenSSL's two variables; return whether one is set."""
    file, folders = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file:
        _trust_file(context, file, "SSL_CERT_FILE")
    if folders:
        # OpenSSL reads several, at the handshake, and ignores missing ones.
        if not any(Path(folder).is_dir() for folder in folders.split(os.pathsep)):
            raise ValueError(f"cannot read SSL_CERT_DIR {folders!r}: no such folder")
        context.load_verify_locations(capath=folders)
    return bool(file or folders)


def _trust_system(context: ssl.SSLContext) -> None:
    """Trust the system's store, not the environment's; without a store, certifi's."""
    if os.name == "nt":  # its store is not a file
        context.load_default_certs()
        return
    paths = ssl.get_default_verify_paths()
    file, folder = Path(paths.openssl_cafile), Path(paths.openssl_capath)
    if file.is_file():
        _trust_file(context, str(file), "the system's store")
    if folder.is_dir() and any(folder.iterdir()):
        context.load_verify_locations(capath=folder)
    elif not context.cert_store_stats()["x509_ca"]:
        import certifi  # comes with httpx

        context.load_verify_locations(cafile=certifi.where())


def _load_client_cert(context: ssl.SSLContext, cert: ClientCert) -> None:
    """Load the client certificate, without a prompt for the password of its key."""
    parts = (cert,) if isinstance(cert, str) else cert
    paths = [str(part) for part in parts[:2]]
    for path in paths:
        try:
            Path(path).open("rb").close()
        except (OSError, ValueError) as error:
            text = f"cannot read client_cert {path!r}: {_reason(error)}"
            raise ValueError(text) from error
    password = parts[2] if len(parts) == 3 else _no_password
    try:
        context.load_cert_chain(paths[0], (*paths, None)[1], password)
    except (ssl.SSLError, _NoPassword) as error:
        raise ValueError(
            f"cannot use client_cert {paths!r}: {_reason(error)}"
        ) from error


class _NoPassword(Exception):
    """The key is encrypted, and no password was given."""


def _no_password() -> str:
    # Without this function, OpenSSL prompts at the terminal.
    raise _NoPassword("its key needs a password")


def _reason(error: Exception) -> str:
    """Return the message of an error, without its number and path."""
    message: str = getattr(error, "strerror", None) or str(error)
    if "PEM lib" in message:  # OpenSSL's text for all these cases
        return "it holds no certificate and key as PEM, or not with that password"
    return message.partition(" (_ssl.c")[0]
