"""Create the TLS context of ``tls_server_config``, and check client certificates."""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from spec_decode_exporter.web.security.schema import IF_GIVEN, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spec_decode_exporter.web.security.schema import TlsServer

_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {
    "NoClientCert": ssl.CERT_NONE,
    IF_GIVEN: ssl.CERT_OPTIONAL,
    VERIFIED: ssl.CERT_REQUIRED,
}

_SAN_KINDS: Final = frozenset({"DNS", "email", "URI", "IP Address"})
"""Kinds of names in a certificate that ``client_allowed_sans`` can match, as Python's ssl names them."""


def server_context(tls: TlsServer) -> ssl.SSLContext:
    """Return the TLS context of the server. Call it in a thread: it reads files.

    Raises:
        ValueError: A certificate or key is invalid; the text names it, but never shows its content.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    _identify(context, tls)
    _trust(context, tls)
    return context


def allows(tls: TlsServer, certificate: Mapping[str, Any] | None) -> bool:
    """Return whether the client's verified certificate has one of the allowed names."""
    if tls.client_allowed_sans is None:
        return True
    return not set(tls.client_allowed_sans).isdisjoint(_names(certificate or {}))


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    for kind, name in certificate.get("subjectAltName", ()):
        if kind in _SAN_KINDS:
            yield _address(name) if kind == "IP Address" else name


def _address(name: str) -> str:
    """Format an address as Go does: Python writes an IPv6 address in full, in upper case."""
    try:
        return str(ip_address(name.strip()))
    except ValueError:
        return name


def _identify(context: ssl.SSLContext, tls: TlsServer) -> None:
    try:
        # OpenSSL would prompt for the password of an encrypted key; the empty password makes it fail.
        context.load_cert_chain(tls.cert_file or "", tls.key_file, password="")
    except (OSError, ValueError, TypeError) as error:  # ssl.SSLError is an OSError; no text has a key
        culprits = f"{tls.cert_file} with {tls.key_file}"
        raise ValueError(
            f"cannot be used: {culprits}: not a certificate and its key in PEM, without a password "
            f"({_reason(error)})"
        ) from None


def _trust(context: ssl.SSLContext, tls: TlsServer) -> None:
    if tls.client_ca_file:
        try:
            context.load_verify_locations(tls.client_ca_file)
        except (OSError, ValueError, TypeError) as error:
            culprit = tls.client_ca_file
            raise ValueError(
                f"cannot be used: {culprit}: not a certificate in PEM ({_reason(error)})"
            ) from None
    context.verify_mode = _VERIFY[tls.client_auth_type]


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "no PEM in it"
    return getattr(error, "strerror", None) or "no PEM in it"
