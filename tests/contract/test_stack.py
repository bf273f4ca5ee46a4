"""config/compose.yaml and the files that it mounts fit together; no container is run here."""

import runpy
import subprocess
from urllib.parse import urlsplit

import yaml

from spec_decode_exporter.cli.run import DEFAULT_ADDRESS
from spec_decode_exporter.config.load import load
from spec_decode_exporter.simulator.scenario import INCLUDED
from tests.contract.promql import needs, promtool
from tests.paths import CHECKOUT

CONFIG = CHECKOUT / "config"


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


COMPOSE = read(CONFIG / "compose.yaml")
SERVICES = COMPOSE["services"]
SIMULATED = {f"{name}:8000" for name, service in SERVICES.items() if "simulate" in service.get("command", ())}
PROMETHEUS = read(CONFIG / "prometheus" / "prometheus.yml")


def scraped(job):
    (config,) = [config for config in PROMETHEUS["scrape_configs"] if config["job_name"] == job]
    return {target for group in config["static_configs"] for target in group["targets"]}


def test_mounted_files_exist_and_are_read_only():
    volumes = [volume for service in SERVICES.values() for volume in service.get("volumes", ())]
    for source, _, *options in (volume.split(":") for volume in volumes):
        if source.startswith("."):
            assert (CONFIG / source).exists(), source
            assert options == ["ro"], source
        else:
            assert source in COMPOSE["volumes"]


def test_every_port_is_published_to_this_machine_alone():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_simulated_server_has_a_scenario_and_is_a_target():
    scenarios = {
        service["command"][-1] for service in SERVICES.values() if "simulate" in service.get("command", ())
    }
    assert len(SIMULATED) == len(scenarios) == 6
    assert scenarios <= set(INCLUDED)
    config = load(CONFIG / "stack" / "exporter.yml", environ={})
    assert {urlsplit(target.url).netloc for target in config.targets} == SIMULATED
    assert scraped("vllm") == SIMULATED


def test_prometheus_scrapes_the_exporter_and_notifies_alertmanager():
    assert scraped("spec-decode") == {f"exporter{DEFAULT_ADDRESS}"}
    ((managers,),) = [entry["static_configs"] for entry in PROMETHEUS["alerting"]["alertmanagers"]]
    assert managers["targets"] == ["alertmanager:9093"]
    assert PROMETHEUS["global"]["scrape_interval"] == "15s"


def test_prometheus_loads_every_rule_except_those_without_the_exporter():
    folder = CONFIG / "prometheus"
    loaded = {path for pattern in PROMETHEUS["rule_files"] for path in folder.glob(pattern)}
    shipped = {*folder.glob("alerts/*.yml"), *folder.glob("rules/*.yml")}
    assert {path.name for path in shipped - loaded} == {"raw-counters.yml"}


@needs("promtool")
def test_prometheus_accepts_its_configuration():
    status, output = promtool("check", "config", CONFIG / "prometheus" / "prometheus.yml")
    assert status == 0, output


@needs("amtool")
def test_alertmanager_accepts_its_configuration():
    command = ["amtool", "check-config", CONFIG / "alertmanager" / "alertmanager.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alertmanager_sends_to_the_receiver():
    config = read(CONFIG / "alertmanager" / "alertmanager.yml")
    urls = {urlsplit(hook["url"]) for each in config["receivers"] for hook in each["webhook_configs"]}
    receiver = runpy.run_path(str(CONFIG / "stack" / "receiver.py"))
    assert {(url.hostname, url.port) for url in urls} == {receiver["ADDRESS"]}
    assert SERVICES["receiver"]["network_mode"] == "service:alertmanager"
