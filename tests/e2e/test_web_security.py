"""The pages behind mutual TLS and passwords for a real Prometheus, and slowhttptest's ways to be slow."""

import json
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import bcrypt
import pytest
import trustme

PASSWORD = "correct horse"


def test_prometheus_scrapes_over_mutual_tls_with_its_password_and_others_do_not(
    start, e2e, prometheus_tools, tmp_path
):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    for name, names in (("server", ("localhost", "127.0.0.1")), ("client", ("prometheus.example",))):
        issued = authority.issue_cert(*names)
        issued.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.crt")
    tls = {
        "cert_file": "server.crt",
        "key_file": "server.key",
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_ca_file": "ca.crt",
        "client_allowed_sans": ["prometheus.example"],
    }
    users = {"prometheus": bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(8)).decode()}
    web = tmp_path / "web.yml"
    web.write_text(json.dumps({"tls_server_config": tls, "basic_auth_users": users}))
    targets = json.dumps({"targets": [{"name": "none", "url": "http://127.0.0.1:1/"}]})
    exporter = start(e2e.Exporter, targets, "--web.config.file", web, name="secured")
    own = {
        name: f"{tmp_path}/{file}"
        for name, file in (("ca_file", "ca.crt"), ("cert_file", "client.crt"), ("key_file", "client.key"))
    }
    password = {"basic_auth": {"username": "prometheus", "password": PASSWORD}}
    ways = {
        "let in": {"tls_config": own, **password},
        "no password": {"tls_config": own},
        "no certificate": {"tls_config": {"ca_file": own["ca_file"]}, **password},
    }
    job = {"scheme": "https", "static_configs": [{"targets": [f"127.0.0.1:{exporter.port}"]}]}
    scraped = [{"job_name": name, **job, **way} for name, way in ways.items()]
    often = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config = {"global": often, "scrape_configs": scraped}
    prometheus = start(e2e.Prometheus, config=config, name="prometheus-web")
    prometheus.wait_for(f"{prometheus.url}/-/ready")
    e2e.eventually(lambda: prometheus.value('sum_over_time(up{job="let in"}[5m])>=5'))
    for other in ("no password", "no certificate"):
        e2e.eventually(lambda other=other: prometheus.query(f'up{{job="{other}"}}'))
        assert prometheus.value(f'max_over_time(up{{job="{other}"}}[5m])') == 0
    name = "spec_decode_exporter_web_config_last_reload_successful"
    assert prometheus.value(f'last_over_time({name}{{job="let in"}}[5m])') == 1


ATTACK = 15  # seconds
SLOW = {
    "heads that never end": "-H -i 1",
    "bodies that never end": "-B -i 1 -s 8192",
    "answers that are not read": "-X -r 50 -w 1 -y 8 -n 5 -z 1",
}


@pytest.mark.parametrize("way", SLOW)
def test_deliberately_slow_clients_do_not_delay_others(start, e2e, way):
    if shutil.which("slowhttptest") is None:
        pytest.skip("slowhttptest is not installed: apt-get install slowhttptest")
    targets = json.dumps({"targets": [{"url": "http://127.0.0.1:1/"}]})
    exporter = start(e2e.Exporter, targets, name=way.replace(" ", "-"))
    exporter.wait_for(f"{exporter.url}/-/ready")
    page = f"{exporter.url}/metrics"
    attack = f"slowhttptest {SLOW[way]} -c 600 -r 200 -l {ATTACK} -p 2 -u {page}".split()
    attack = subprocess.Popen(attack, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    taken = []
    try:
        while attack.poll() is None:
            begin = time.monotonic()
            status, _, _ = e2e.fetch(page)
            taken.append((time.monotonic() - begin, status))
    finally:
        attack.kill()
        attack.wait()
    assert [status for _, status in taken].count(200) >= 0.9 * len(taken) > 0, taken
    # Seconds that its main thread was ready to run and another program had the processor.
    waited = int(Path(f"/proc/{exporter.process.pid}/schedstat").read_text().split()[1]) / 1e9
    # Who waits for a slow client waits for the end of the attack.
    assert statistics.median(seconds for seconds, _ in taken) < ATTACK / 3 + waited
    assert "Traceback" not in exporter.log
