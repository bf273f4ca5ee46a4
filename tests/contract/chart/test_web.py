"""TLS and passwords from a Secret: mounted, asked for by Prometheus, and no obstacle to the probes."""

from __future__ import annotations

import pytest
import trustme
import yaml

from spec_decode_exporter.web.security import read_web_config

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
TLS = {"tls_server_config": {"cert_file": "tls.crt", "key_file": "tls.key"}}
USERS = {"basic_auth_users": {"prometheus": HASH}}
MUTUAL = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.crt"}
LIMIT = {"rate_limit": {"interval": "100ms", "burst": 20}}


def web_volume(pod):
    (volume,) = [one for one in pod["volumes"] if one["name"] == "spec-decode-exporter-web"]
    return [source["secret"]["name"] for source in volume["projected"]["sources"]]


@pytest.mark.parametrize(
    ("web", "way"),
    [
        ({}, {"httpGet": {"path": "/-/healthy", "port": "spec-decode"}}),
        (
            {"config": TLS, "existingSecret": "tls"},
            {"httpGet": {"path": "/-/healthy", "port": "spec-decode", "scheme": "HTTPS"}},
        ),
        ({"config": USERS}, {"tcpSocket": {"port": "spec-decode"}}),
        ({"config": LIMIT}, {"tcpSocket": {"port": "spec-decode"}}),
        ({"existingSecret": "all"}, {"tcpSocket": {"port": "spec-decode"}}),
        (
            {
                "config": {"tls_server_config": {**TLS["tls_server_config"], **MUTUAL}},
                "existingSecret": "tls",
            },
            {"tcpSocket": {"port": "spec-decode"}},
        ),
    ],
)
def test_the_kubelet_asks_in_a_way_that_is_answered(render, render_sidecar, web, way):
    probe = render({"web": web}).container()["livenessProbe"]
    (sidecar,) = render_sidecar({"web": web})["initContainers"]
    assert way.items() <= probe.items()
    assert len({"httpGet", "tcpSocket"} & probe.keys()) == 1
    assert probe["failureThreshold"] == 6
    assert sidecar["livenessProbe"] == probe


def test_without_one_there_is_nothing_of_it(render):
    text = yaml.safe_dump_all(render({}))
    assert "--web.config.file" not in text
    assert not render({}).of("Secret")


def test_the_configuration_is_beside_the_files_that_it_names_and_is_good(render, tmp_path):
    rendered = render("web")
    secret = rendered.one("Secret")
    pod = rendered.one("Deployment")["spec"]["template"]["spec"]
    assert web_volume(pod) == [secret["metadata"]["name"], "exporter-tls"]
    (page,) = rendered.one("Pod")["spec"]["containers"]
    assert page["command"][-1].startswith("https://rel-spec-decode-exporter.obs:7732/")
    (mount,) = [
        one for one in rendered.container()["volumeMounts"] if one["name"] == "spec-decode-exporter-web"
    ]
    assert f"--web.config.file={mount['mountPath']}/web-config.yml" in rendered.container()["args"]
    authority = trustme.CA()
    issued = authority.issue_cert("exporter")
    issued.private_key_pem.write_to_path(tmp_path / "tls.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "web-config.yml").write_text(secret["stringData"]["web-config.yml"])
    assert read_web_config(tmp_path / "web-config.yml").context is not None


def test_a_secret_may_hold_all_of_it(render):
    rendered = render({"web": {"existingSecret": "all"}, "monitor": {"enabled": True}})
    assert not rendered.of("Secret")
    assert web_volume(rendered.one("Deployment")["spec"]["template"]["spec"]) == ["all"]
    (endpoint,) = rendered.one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"


@pytest.mark.parametrize(("kind", "mode"), [("ServiceMonitor", "fleet"), ("PodMonitor", "sidecar")])
def test_prometheus_asks_as_the_values_say(render, kind, mode):
    monitor = {
        "enabled": True,
        "tlsConfig": {"serverName": "exporter"},
        "basicAuth": {"username": {"name": "a", "key": "u"}, "password": {"name": "a", "key": "p"}},
    }
    web = {"config": {**TLS, **USERS}, "existingSecret": "tls"}
    spec = render({"mode": mode, "web": web, "monitor": monitor}).one(kind)["spec"]
    (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == monitor["tlsConfig"]
    assert endpoint["basicAuth"] == monitor["basicAuth"]
    rendered = render({"mode": mode, "web": {"config": USERS}, "monitor": monitor})
    spec = rendered.one(kind)["spec"]
    assert "scheme" not in (spec.get("endpoints") or spec["podMetricsEndpoints"])[0]


def test_sidecars_have_it_in_each_of_their_namespaces(render, render_sidecar):
    values = {"mode": "sidecar", "sidecar": {"namespaces": ["a", "b"]}, "web": {"config": USERS}}
    secrets = render(values).of("Secret")
    assert [one["metadata"]["namespace"] for one in secrets] == ["a", "b"]
    pod = render_sidecar({"web": {"config": USERS}})
    (sidecar,) = pod["initContainers"]
    assert "--web.config.file=/etc/spec-decode-exporter-web/web-config.yml" in sidecar["args"]
    assert {one["name"] for one in pod["volumes"]} == {one["name"] for one in sidecar["volumeMounts"]}
    assert web_volume(pod) == [secrets[0]["metadata"]["name"]]
