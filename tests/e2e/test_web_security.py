"""The pages behind mutual TLS and passwords: a real Prometheus, curl, and slowhttptest's ways to be slow."""

import json
import shutil
import subprocess
from types import SimpleNamespace

import bcrypt
import pytest
import trustme

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a web configuration, and what a client needs to be let in."""
    folder, authority = tmp_path_factory.mktemp("web"), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    client = authority.issue_cert("prometheus.example")
    client.private_key_pem.write_to_path(folder / "client.key")
    client.cert_chain_pems[0].write_to_path(folder / "client.crt")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(8)).decode()

    def issue():
        issued = authority.issue_cert("localhost", "127.0.0.1")
        for name, pem in (("server.key", issued.private_key_pem), ("server.crt", issued.cert_chain_pems[0])):
            pem.write_to_path(folder / f"{name}.new")
            (folder / f"{name}.new").replace(folder / name)

    issue()
    (folder / "web.yml").write_text(
        json.dumps(
            {
                "tls_server_config": {
                    "cert_file": "server.crt",
                    "key_file": "server.key",
                    "client_auth_type": "RequireAndVerifyClientCert",
                    "client_ca_file": "ca.crt",
                    "client_allowed_sans": ["prometheus.example"],
                },
                "basic_auth_users": {"prometheus": hashed},
            }
        )
    )
    return SimpleNamespace(folder=folder, issue=issue, authority=authority)


class Curl:
    def __init__(self, folder, exporter):
        self.folder = folder
        self.url = f"https://127.0.0.1:{exporter.port}"
        self.own = ("--cert", folder / "client.crt", "--key", folder / "client.key")
        self.user = ("--user", f"prometheus:{PASSWORD}")

    def __call__(self, path, *options):
        """Return the exit status, the status of the answer and the answer, with its head."""
        command = ["curl", "--silent", "--include", "--max-time", "300", "--cacert", self.folder / "ca.crt"]
        done = subprocess.run(
            [*map(str, command), *map(str, options), "--write-out", "\n%{http_code}", self.url + path],
            capture_output=True,
            check=False,
        )
        text, _, status = done.stdout.decode().rpartition("\n")
        return done.returncode, int(status), text


@pytest.fixture(scope="module")
def secured(start, e2e, files):
    """The exporter behind the web configuration, and curl with what it is let in by."""
    exporter = start(
        e2e.Exporter,
        json.dumps({"targets": [{"name": "none", "url": "http://127.0.0.1:1/"}]}),
        "--web.config.file",
        files.folder / "web.yml",
    )
    curl = Curl(files.folder, exporter)
    e2e.eventually(lambda: curl("/-/ready", *curl.own, *curl.user)[1] == 200)
    return SimpleNamespace(exporter=exporter, curl=curl, folder=files.folder)


def test_who_has_certificate_and_password_sees_the_page(secured):
    _, status, text = secured.curl("/metrics", *secured.curl.own, *secured.curl.user)
    assert status == 200
    assert "spec_decode_exporter_build_info" in text


def test_a_certificate_alone_is_not_enough(secured):
    for path in ("/", "/metrics", "/config", "/-/healthy", "/-/ready", "/api/v1/snapshot"):
        code, status, text = secured.curl(path, *secured.curl.own)
        assert (code, status) == (0, 401), path
        assert 'www-authenticate: basic realm="spec-decode-exporter"' in text.lower()
    assert secured.curl("/metrics", *secured.curl.own, "--user", "prometheus:wrong")[1] == 401


def test_without_the_right_certificate_and_version_of_tls_there_is_no_answer(secured, files):
    other = files.authority.issue_cert("other.example")
    other.private_key_pem.write_to_path(secured.folder / "other.key")
    other.cert_chain_pems[0].write_to_path(secured.folder / "other.crt")
    others = ("--cert", secured.folder / "other.crt", "--key", secured.folder / "other.key")
    for certificate in ((), others, (*secured.curl.own, "--tls-max", "1.1")):
        code, status, _ = secured.curl("/metrics", *certificate, *secured.curl.user)
        assert code != 0, certificate
        assert status == 0
    plain = ["curl", "--silent", "--max-time", "60", secured.curl.url.replace("https", "http")]
    assert subprocess.run(plain, capture_output=True, check=False).returncode != 0


def serial(secured):
    shown = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{secured.exporter.port}"],
        input=b"",
        capture_output=True,
        check=False,
    )
    return subprocess.run(
        ["openssl", "x509", "-noout", "-serial"], input=shown.stdout, capture_output=True, check=True
    ).stdout


def test_a_new_certificate_is_shown_without_a_restart(secured, files, e2e):
    before = serial(secured)
    files.issue()
    e2e.eventually(lambda: serial(secured) != before)
    assert secured.curl("/metrics", *secured.curl.own, *secured.curl.user)[1] == 200


def test_prometheus_scrapes_over_mutual_tls_with_its_password_and_others_do_not(
    secured, start, e2e, prometheus_tools
):
    folder = secured.folder
    tls = {
        "ca_file": f"{folder}/ca.crt",
        "cert_file": f"{folder}/client.crt",
        "key_file": f"{folder}/client.key",
    }
    password = {"username": "prometheus", "password": PASSWORD}
    job = {"scheme": "https", "static_configs": [{"targets": [f"127.0.0.1:{secured.exporter.port}"]}]}
    prometheus = start(
        e2e.Prometheus,
        config={
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [
                {"job_name": "let in", **job, "tls_config": tls, "basic_auth": password},
                {"job_name": "no password", **job, "tls_config": tls},
                {"job_name": "no certificate", **job, "tls_config": {"ca_file": tls["ca_file"]}},
            ],
        },
        name="prometheus-web",
    )
    prometheus.wait_for(f"{prometheus.url}/-/ready")
    e2e.eventually(lambda: prometheus.value('sum_over_time(up{job="let in"}[1m])>=5'))
    assert prometheus.value('min_over_time(up{job="let in"}[1m])') == 1
    assert prometheus.value('max_over_time(up{job="no password"}[1m])') == 0
    assert prometheus.value('max_over_time(up{job="no certificate"}[1m])') == 0
    name = "spec_decode_exporter_web_config_last_reload_successful"
    assert prometheus.value(f'{name}{{job="let in"}}') == 1


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
    attack = f"slowhttptest {SLOW[way]} -c 600 -r 200 -l 15 -p 2 -u {page}".split()
    one = ["curl", "-s", "-o", "/dev/null", "-m", "30", "-w", "%{http_code} %{time_total}", page]
    attack = subprocess.Popen(attack, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    taken = []
    try:
        while attack.poll() is None:
            status, seconds = subprocess.run(one, capture_output=True, check=False).stdout.split()
            taken.append((int(status), float(seconds)))
        waited = exporter.waited_for_cpu()
    finally:
        attack.kill()
        attack.wait()
    answered = [seconds for status, seconds in taken if status == 200]
    assert len(taken) > 5
    assert len(answered) >= 0.95 * len(taken), taken
    assert sorted(answered)[int(0.95 * len(answered))] < 1 + waited
    assert "Traceback" not in exporter.log
