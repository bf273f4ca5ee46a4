"""What cannot work is refused before anything is installed, and the message says what to do."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"replicas": 2}, "set sharding.enabled, or replicas to 1"),
        ({"sidecar": {"injection": {"enabled": True}}}, "count the same engines twice"),
        ({"podMonitor": {"enabled": True}}, "scraped through serviceMonitor"),
        ({"mode": "sidecar", "serviceMonitor": {"enabled": True}}, "serviceMonitor is for mode: fleet"),
        ({"mode": "sidecar", "sharding": {"enabled": True}}, "sharding is for mode: fleet"),
        ({"mode": "sidecar", "networkPolicy": {"enabled": True}}, "networkPolicy is for mode: fleet"),
        ({"mode": "sidecar", "persistence": {"enabled": True}}, "persistence is for mode: fleet"),
        ({"mode": "both"}, "at '/mode'"),
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"image": {"repository": "host:5000/x:tag"}}, "at '/image/repository'"),
        ({"image": {"digest": "sha256:1"}}, "at '/image/digest'"),
        ({"config": {"discovery": {"kubernetes": [{"selector": "a=b"}]}}}, "'selector' not allowed"),
        ({"config": {"policy": {"min_draft": 5}}}, "'min_draft' not allowed"),
        ({"mode": "sidecar", "sidecar": {"config": {"cots": {}}}}, "'cots' not allowed"),
        ({"mode": "sidecar", "sidecar": {"namespaces": ["*"]}}, "at '/sidecar/namespaces/0'"),
        ({"mode": "sidecar", "sidecar": {"selector": {"matchLabels": {"a": 1}}}}, "want string"),
        ({"serviceMonitor": {"interval": "15 s"}}, "at '/serviceMonitor/interval'"),
        ({"prometheusRule": {"disabled": {"PollsSlow": True}}}, "'PollsSlow'"),
        ({"extraArgs": ["log.level=debug"]}, "at '/extraArgs/0'"),
        ({"service": {"port": 70000}}, "at '/service/port'"),
        ({"web": {"config": {"basic_auth_user": {}}}}, "'basic_auth_user' not allowed"),
        ({"web": {"config": {"tls_server_config": {"min_version": "TLS10"}}}}, "min_version"),
        ({"web": {"config": {"tls_server_config": {"cert_file": "tls.crt"}}}}, "name the Secret that has it"),
        ({"web": {"scheme": "ftp"}}, "at '/web/scheme'"),
        ({"serviceMonitor": {"basicAuth": {"user": {}}}}, "'user' not allowed"),
    ],
)
def test_is_refused(refused, values, part):
    assert part in refused(values)


def test_more_exporters_than_one_are_taken_with_shards(render):
    rendered = render({"replicas": 2, "sharding": {"enabled": True}})
    assert rendered.one("StatefulSet")["spec"]["replicas"] == 2
    assert not rendered.of("Deployment")


@pytest.mark.parametrize("version", ["v1.29.0", "v1.33.5"])
def test_injection_is_refused_where_kubernetes_has_no_such_policy(render, version):
    from helm_python.errors import HelmError

    with pytest.raises(HelmError, match="needs MutatingAdmissionPolicy") as caught:
        render("injection", kube_version=version)
    assert f"this is {version}" in str(caught.value)
