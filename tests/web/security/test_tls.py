from __future__ import annotations

import contextlib
import ssl

import pytest

from spec_decode_exporter.web.security.load_web_config import read_web_config
from spec_decode_exporter.web.security.tls import allows

CERTIFICATE = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
MUTUAL = CERTIFICATE + "  client_ca_file: authority.pem\n  client_auth_type: "


def shaken(server, client):
    """Do a handshake of two contexts in memory; return the server's side of the connection."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    done = set()
    for side in [asking, answering] * 5:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
            done.add(side)
    assert len(done) == 2
    return answering


@pytest.fixture
def server(folder):
    def make(text):
        return read_web_config(folder.write(text)).context

    return make


def test_the_oldest_version_can_be_limited(server, trusting):
    client = trusting()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shaken(server(CERTIFICATE + "  min_version: TLS13\n"), client)


@pytest.mark.parametrize("policy", ["VerifyClientCertIfGiven", "RequireAndVerifyClientCert"])
def test_only_certificates_of_the_authority_are_accepted(server, trusting, policy):
    import trustme

    context = server(MUTUAL + policy)
    assert shaken(context, trusting("prometheus.example")).getpeercert()
    with pytest.raises(ssl.SSLError):
        shaken(context, trusting("prometheus.example", issuer=trustme.CA()))


def test_a_client_without_a_certificate_is_rejected_only_if_one_is_required(server, trusting):
    assert shaken(server(MUTUAL + "VerifyClientCertIfGiven"), trusting()).getpeercert() is None
    with pytest.raises(ssl.SSLError):
        shaken(server(MUTUAL + "RequireAndVerifyClientCert"), trusting())


@pytest.mark.parametrize(
    ("identities", "names", "allowed"),
    [
        (["prometheus.example"], "prometheus.example", True),
        (["prometheus.example"], "example", False),
        (["prometheus.example"], "PROMETHEUS.example", False),
        (["other.example", "prometheus.example"], "none.example, prometheus.example", True),
        (["*.example"], "prometheus.example", False),
        (["192.0.2.1"], "192.0.2.1", True),
        (["2001:db8::1"], "'2001:db8::1'", True),
        (["who@example.org"], "who@example.org", True),
    ],
)
def test_a_certificate_can_need_an_allowed_name(folder, trusting, identities, names, allowed):
    text = MUTUAL + f"RequireAndVerifyClientCert\n  client_allowed_sans: [{names}]\n"
    config = read_web_config(folder.write(text))
    certificate = shaken(config.context, trusting(*identities)).getpeercert()
    assert allows(config.settings.tls_server_config, certificate) is allowed


def test_a_name_of_another_kind_is_not_allowed(folder):
    text = MUTUAL + "RequireAndVerifyClientCert\n  client_allowed_sans: [prometheus.example]\n"
    tls = read_web_config(folder.write(text)).settings.tls_server_config
    for kind in ("othername", "DirName", "Registered ID"):
        assert not allows(tls, {"subjectAltName": ((kind, "prometheus.example"),)})
    assert allows(tls, {"subjectAltName": (("othername", "x"), ("DNS", "prometheus.example"))})
