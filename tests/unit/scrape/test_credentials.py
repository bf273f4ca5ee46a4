from __future__ import annotations

import base64
import os
import ssl
import weakref
from pathlib import Path

import pytest
from pydantic import SecretStr

from spec_decode_exporter.config.http_settings import Authorization, BasicAuth, HttpSettings, TlsConfig
from spec_decode_exporter.scrape.credentials import headers, ssl_context
from spec_decode_exporter.scrape.errors import PollError


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("hunter2\n")
    return path


def rotate(path: Path, content: str) -> None:
    """Replace a file's content with another modification time, whatever the file system's resolution."""
    path.write_text(content)
    later = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(later, later))


def test_a_token_is_sent_after_its_scheme_and_picked_up_when_it_is_rotated(secret):
    bearer = HttpSettings(authorization=Authorization(credentials=SecretStr("t0ken")))
    token = HttpSettings(authorization=Authorization(type="Token", credentials_file=secret))
    assert headers(bearer) == {"Authorization": "Bearer t0ken"}
    assert headers(token) == {"Authorization": "Token hunter2"}
    rotate(secret, "hunter3")
    assert headers(token) == {"Authorization": "Token hunter3"}


def test_user_and_password_are_sent_as_basic(secret):
    settings = HttpSettings(basic_auth=BasicAuth(username="jörg", password_file=secret))
    kind, _, encoded = headers(settings)["Authorization"].partition(" ")
    assert (kind, base64.b64decode(encoded).decode()) == ("Basic", "jörg:hunter2")


@pytest.mark.parametrize(
    "content", ["hunter2\nX-Evil: 1", "hunter2\x00", "", "hunter2ü", "hunter2\r\n\r\nGET /"]
)
def test_a_secret_that_is_no_header_value_is_never_sent_nor_repeated(secret, content):
    secret.write_text(content)
    settings = HttpSettings(authorization=Authorization(credentials_file=secret))
    with pytest.raises(PollError, match="one line of visible ASCII") as caught:
        headers(settings)
    assert "hunter2" not in str(caught.value)
    assert str(secret) in str(caught.value)


def test_certificates_are_checked_unless_that_is_turned_off():
    context = ssl_context(HttpSettings())
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    unchecked = ssl_context(HttpSettings(tls_config=TlsConfig(insecure_skip_verify=True)))
    assert (unchecked.check_hostname, unchecked.verify_mode) == (False, ssl.CERT_NONE)


def test_a_private_authority_is_trusted_alone(certificates):
    settings = HttpSettings(tls_config=TlsConfig(ca_file=certificates.authority))
    [known] = ssl_context(settings).get_ca_certs()
    assert "trustme" in str(known["subject"])


def test_a_context_is_built_again_only_when_a_file_changes_and_releases_the_older(certificates, tmp_path):
    path, contexts = tmp_path / "ca.pem", []
    path.write_text(certificates.authority.read_text())
    settings = HttpSettings(tls_config=TlsConfig(ca_file=path))
    for _ in range(3):
        contexts.append(weakref.ref(ssl_context(settings)))
        assert ssl_context(settings.model_copy(deep=True)) is contexts[-1]()
        rotate(path, certificates.authority.read_text())
    assert [context() is None for context in contexts] == [True, True, False]
    path.unlink()
    with pytest.raises(PollError, match="cannot be read") as caught:
        ssl_context(settings)
    assert caught.value.reason == "tls"


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"cert_file": "certificate", "key_file": "other_key"}, "other.key"),
        ({"cert_file": "certificate", "key_file": None}, "secret"),
        ({"ca_file": None}, "secret"),
    ],
    ids=["the key of another", "no key", "no authority"],
)
def test_invalid_files_of_tls_are_rejected_and_not_repeated(certificates, secret, keys, named):
    paths = {key: getattr(certificates, name) if name else secret for key, name in keys.items()}
    with pytest.raises(PollError, match=rf"tls_config: .*{named}: not a valid") as caught:
        ssl_context(HttpSettings(tls_config=TlsConfig(**paths)))
    assert caught.value.reason == "tls"
    assert "hunter2" not in str(caught.value)
