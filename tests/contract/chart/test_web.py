"""TLS and passwords from a Secret: mounted, asked for by Prometheus, and no obstacle to the probes."""

import pytest
import trustme

from spec_decode_exporter.web.security import read_web_config
from tests.contract.chart.rendering import WORKLOADS, render, render_sidecar

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
FILES = {"cert_file": "tls.crt", "key_file": "tls.key"}
TLS = {"tls_server_config": FILES}
USERS = {"basic_auth_users": {"prometheus": HASH}}
MUTUAL = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.crt"}
NAME = "spec-decode-exporter-web"


PORT = {"port": "spec-decode"}
HEALTHY = {"path": "/-/healthy", **PORT}


@pytest.mark.parametrize(
    ("web", "way"),
    [
        ({}, {"httpGet": HEALTHY}),
        ({"config": TLS, "existingSecret": "tls"}, {"httpGet": {**HEALTHY, "scheme": "HTTPS"}}),
        ({"config": USERS}, {"tcpSocket": PORT}),
        ({"existingSecret": "all"}, {"tcpSocket": PORT}),
        ({"config": {"tls_server_config": {**FILES, **MUTUAL}}, "existingSecret": "tls"}, {"tcpSocket": PORT}),
    ],
    ids=["open", "TLS", "passwords", "all from a Secret", "client certificates"],
)  # fmt: skip
def test_the_kubelet_asks_in_a_way_that_is_answered(web, way):
    probe = render({"web": web}).container()["livenessProbe"]
    (sidecar,) = render_sidecar({"web": web})["initContainers"]
    assert way.items() <= probe.items()
    assert len({"httpGet", "tcpSocket"} & probe.keys()) == 1
    assert probe["failureThreshold"] == 6
    assert sidecar["livenessProbe"] == probe


def test_the_configuration_is_beside_the_files_that_it_names_and_is_good(tmp_path):
    rendered = render("web")
    secret = rendered.one("Secret")
    volumes = rendered.one(*WORKLOADS)["spec"]["template"]["spec"]["volumes"]
    (volume,) = [one for one in volumes if one["name"] == NAME]
    secrets = [source["secret"]["name"] for source in volume["projected"]["sources"]]
    assert secrets == [secret["metadata"]["name"], "exporter-tls"]
    (page,) = rendered.one("Pod")["spec"]["containers"]
    assert page["command"][-1].startswith("https://rel-spec-decode-exporter.obs:7732/")
    (mount,) = [one for one in rendered.container()["volumeMounts"] if one["name"] == NAME]
    assert f"--web.config.file={mount['mountPath']}/web-config.yml" in rendered.container()["args"]
    authority = trustme.CA()
    issued = authority.issue_cert("exporter")
    issued.private_key_pem.write_to_path(tmp_path / "tls.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "web-config.yml").write_text(secret["stringData"]["web-config.yml"])
    assert read_web_config(tmp_path / "web-config.yml").context is not None


@pytest.mark.parametrize("mode", ["fleet", "sidecar"])
def test_prometheus_asks_as_the_values_say(mode):
    monitor = {
        "enabled": True,
        "tlsConfig": {"serverName": "exporter"},
        "basicAuth": {"username": {"name": "a", "key": "u"}, "password": {"name": "a", "key": "p"}},
    }
    web = {"config": {**TLS, **USERS}, "existingSecret": "tls"}
    endpoint = render({"mode": mode, "web": web, "monitor": monitor}).endpoint()
    assert {**endpoint, "scheme": "https", **monitor} == {**endpoint, "enabled": True}
    assert "scheme" not in render({"mode": mode, "web": {"config": USERS}, "monitor": monitor}).endpoint()
