from __future__ import annotations

import contextlib
import time

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.web.security import load_web_config
from spec_decode_exporter.web.security.load_web_config import read_web_config

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
CERTIFICATE = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"


def problems(path):
    with pytest.raises(ConfigError) as refused:
        read_web_config(path)
    return [
        (problem.place.rpartition("/")[2], problem.path, problem.message)
        for problem in refused.value.problems
    ]


GOOD = {
    "empty": "",
    "certificate": CERTIFICATE,
    "users": f"basic_auth_users:\n  alice: {HASH}\n  bob: {HASH.replace('2y', '2b')}\n",
    "rate": "rate_limit: {interval: 100ms, burst: 20}\n",
    "no rate": "rate_limit: {interval: 0, burst: 0}\n",
    "mutual": CERTIFICATE
    + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: authority.pem\n"
    + "  client_allowed_sans: [prometheus.example]\n",
    "optional": CERTIFICATE
    + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: authority.pem\n",
    "oldest version": CERTIFICATE + "  min_version: TLS13\n",
}


@pytest.mark.parametrize("name", GOOD)
def test_configurations_of_exporter_toolkit_are_accepted(folder, name):
    read_web_config(folder.write(GOOD[name]))


# fmt: off
BAD = {
    "unknown section": ("tls: {}\n", "web.yml:1", "tls", "is not a known key here"),
    "misspelt": (CERTIFICATE + "  cert_fil: x\n", "web.yml:4", "tls_server_config.cert_fil", "did you mean `cert_file`?"),
    "twice": (CERTIFICATE + "  key_file: server.key\n", "web.yml:4", "tls_server_config.key_file", "is there twice, first in line 3"),
    "no mapping": ("- basic_auth_users\n", "web.yml:1", "", "must be a mapping of keys to values"),
    "empty section": ("tls_server_config: {}\n", "web.yml:1", "tls_server_config", "has no certificate; add `cert_file`"),
    "certificate alone": ("tls_server_config:\n  cert_file: server.pem\n", "web.yml:1", "tls_server_config", "has no key; add `key_file`"),
    "no such file": (CERTIFICATE.replace("server.pem", "none.pem"), "web.yml:2", "tls_server_config.cert_file", "names a file that cannot be read"),
    "no PEM": (CERTIFICATE.replace("server.pem", "web.yml"), "web.yml:1", "tls_server_config", "not a certificate and its key in PEM"),
    "another's key": (CERTIFICATE.replace("server.pem", "authority.pem"), "web.yml:1", "tls_server_config", "not a certificate and its key in PEM, without a password (KEY_VALUES_MISMATCH)"),
    "authority that is none": (CERTIFICATE + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: server.key\n", "web.yml:1", "tls_server_config", "server.key: not a certificate in PEM"),
    "authority without policy": (CERTIFICATE + "  client_ca_file: authority.pem\n", "web.yml:4", "tls_server_config.client_ca_file", "has no effect without `client_auth_type: RequireAndVerifyClientCert`"),
    "policy without authority": (CERTIFICATE + "  client_auth_type: RequireAndVerifyClientCert\n", "web.yml:4", "tls_server_config.client_auth_type", "needs `client_ca_file`: without it, a certificate of any public authority would be accepted"),
    "policy RequireClientCert": (CERTIFICATE + "  client_auth_type: RequireClientCert\n  client_ca_file: authority.pem\n", "web.yml:4", "tls_server_config.client_auth_type", "cannot be RequireClientCert: Python's TLS cannot ask for a certificate that it does not verify"),
    "no such policy": (CERTIFICATE + "  client_auth_type: requireandverifyclientcert\n", "web.yml:4", "tls_server_config.client_auth_type", "must be 'NoClientCert', 'VerifyClientCertIfGiven' or 'RequireAndVerifyClientCert'"),
    "names that no certificate has to have": (CERTIFICATE + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: authority.pem\n  client_allowed_sans: [a]\n", "web.yml:6", "tls_server_config.client_allowed_sans", "needs `client_auth_type: RequireAndVerifyClientCert`"),
    "no names": (CERTIFICATE + "  client_allowed_sans: []\n", "web.yml:4", "tls_server_config.client_allowed_sans", "must not be empty"),
    "old version": (CERTIFICATE + "  min_version: TLS10\n", "web.yml:4", "tls_server_config.min_version", "cannot be TLS10: OpenSSL no longer supports it; write TLS12 or TLS13"),
    "no users": ("basic_auth_users: {}\n", "web.yml:1", "basic_auth_users", "is empty; add a user"),
    "user without a hash": ("basic_auth_users:\n  alice:\n", "web.yml:2", "basic_auth_users.alice", "has no value; remove it, or give it one"),
    "plain password": ("basic_auth_users:\n  alice: hunter2\n", "web.yml:2", "basic_auth_users.alice", "is not a bcrypt hash; make one with"),
    "cost": (f"basic_auth_users: {{alice: {HASH.replace('$10$', '$31$')}}}\n", "web.yml:1", "basic_auth_users.alice", "has a cost of 31: it must be 4 to 16; 10 is usual"),
    "colon": (f'basic_auth_users: {{"a:b": {HASH}}}\n', "web.yml:1", "basic_auth_users.a:b", "must not be empty or contain a colon"),
    "rate without burst": ("rate_limit: {interval: 1s}\n", "web.yml:1", "rate_limit", "would reject every request"),
    "rate without a unit": ("rate_limit: {interval: 1, burst: 1}\n", "web.yml:1", "rate_limit.interval", "is not a duration; write a number with its unit"),
    "negative burst": ("rate_limit: {interval: 1s, burst: -1}\n", "web.yml:1", "rate_limit.burst", "must be at least 0"),
}
# fmt: on


@pytest.mark.parametrize("name", BAD)
def test_an_error_is_reported_with_its_position_and_remedy(folder, name):
    text, place, path, message = BAD[name]
    found = problems(folder.write(text))
    assert [entry[:2] for entry in found if message in entry[2]] == [(place, path)], found


def test_all_errors_are_reported_at_once(folder):
    text = CERTIFICATE + "  min_version: TLS11\nrate_limit: {interval: 1}\nbasic_auth_users: {a: b}\n"
    assert [path for _, path, _ in problems(folder.write(text))] == [
        "tls_server_config.min_version",
        "rate_limit.interval",
        "basic_auth_users.a",
    ]


def test_repeated_aliases_end_soon(folder):
    many = [f"k{number}: " for number in range(100)]
    lines = ["a: &a {" + ", ".join(f"{key}~" for key in many) + "}"]
    lines += [
        f"{one}: &{one} {{" + ", ".join(f"{key}*{before}" for key in many) + "}"
        for before, one in ("ab", "bc", "cd")
    ]
    begun = time.process_time()
    with pytest.raises(ConfigError, match="is repeated by aliases until"):
        read_web_config(folder.write("\n".join(lines)))
    assert time.process_time() - begun < 10


def test_no_message_repeats_a_hash_or_a_key(folder):
    secret = "$2y$10$secretsecretsecret"
    text = f"tls_server_config: {{cert_file: server.pem, key_file: [{secret}]}}\nbasic_auth_users: {{alice: {secret}}}\n"
    assert "secret" not in str(problems(folder.write(text))).replace("_secret", "")


def test_users_without_bcrypt_are_reported_with_the_remedy(folder, monkeypatch):
    monkeypatch.setattr(load_web_config, "find_spec", lambda _: None)
    assert problems(folder.write(GOOD["users"])) == [
        (
            "web.yml:1",
            "basic_auth_users",
            "needs bcrypt; install it with `pip install 'spec-decode-exporter[auth]'`",
        )
    ]
    read_web_config(folder.write(CERTIFICATE))


def test_without_users_bcrypt_is_not_imported():
    import subprocess
    import sys

    program = "import sys, spec_decode_exporter.app.service; sys.exit('bcrypt' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


KEYS = st.sampled_from(
    [
        "tls_server_config",
        "basic_auth_users",
        "rate_limit",
        "cert_file",
        "a",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just(HASH),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_document_is_accepted_or_rejected_with_config_error(folder, data):
    with contextlib.suppress(ConfigError):
        read_web_config(folder.write(yaml.safe_dump(data, allow_unicode=False)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_are_accepted_or_rejected_with_config_error(folder, data):
    path = folder.write("")
    path.write_bytes(b"basic_auth_users:\n  " + data)
    with contextlib.suppress(ConfigError):
        read_web_config(path)
