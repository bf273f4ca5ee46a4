"""The Collector's configuration: the scrape by Prometheus' own tool, the rest by the form that the Collector reads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from tests.rules.shipped import needs

from .shipped import COLLECTOR, CONFIG

TEXT = (CONFIG / "otel" / "collector.yaml").read_text(encoding="utf-8")

SECTIONS = {"receivers", "processors", "exporters", "service"}
OPTIONS = {
    "prometheus": {"api_server", "config", "target_allocator", "trim_metric_suffixes"},
    "memory_limiter": {
        "check_interval",
        "limit_mib",
        "spike_limit_mib",
        "limit_percentage",
        "spike_limit_percentage",
    },
    "batch": {"timeout", "send_batch_size", "send_batch_max_size"},
    "otlphttp": {"endpoint", "headers", "compression", "tls", "timeout"},
}
"""Options of the components (config.schema.yaml of each in opentelemetry-collector and -contrib, v0.140 and later)."""


def mistakes(config):
    """Yield sections, options and names of components that the Collector would reject."""
    yield from set(config) - SECTIONS
    for section in ("receivers", "processors", "exporters"):
        for name, options in config[section].items():
            yield from set(options) - OPTIONS.get(name.partition("/")[0], set())
    for name, pipeline in config["service"]["pipelines"].items():
        for section, used in pipeline.items():
            yield from (f"{name}: {one}" for one in set(used) - set(config[section]))


def test_its_sections_options_and_pipelines_exist():
    assert list(mistakes(COLLECTOR)) == []
    pipeline = COLLECTOR["service"]["pipelines"]["metrics"]
    assert {name: set(used) for name, used in pipeline.items()} == {
        name: set(COLLECTOR[name]) for name in ("receivers", "processors", "exporters")
    }


@pytest.mark.parametrize(
    ("section", "name", "found"),
    [
        ("receivers", "prometheus/spec-decode", "scrape"),
        ("processors", "batch", "size"),
        ("exporters", "otlphttp", "url"),
    ],
)
def test_an_unknown_option_is_found(section, name, found):
    changed = {**COLLECTOR, section: {**COLLECTOR[section], name: {found: 1}}}
    assert list(mistakes(changed)) == [found]


def test_a_dollar_sign_is_a_variable_or_written_twice():
    """The Collector expands ``${…}`` and refuses a lone dollar sign in some versions."""
    assert (
        re.findall(
            r"\$(?!\$|\{env:[A-Z_]+\})", re.sub(r"\$\$", "", re.sub(r"^#.*$", "", TEXT, flags=re.MULTILINE))
        )
        == []
    )


@needs("promtool")
def test_prometheus_reads_its_scrape(tmp_path):
    path = tmp_path / "prometheus.json"
    path.write_text(json.dumps(COLLECTOR["receivers"]["prometheus/spec-decode"]["config"]), encoding="utf-8")
    run = subprocess.run(
        [shutil.which("promtool"), "check", "config", path], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_it_keeps_every_metric_of_the_exporter_but_those_of_python():
    (job,) = COLLECTOR["receivers"]["prometheus/spec-decode"]["config"]["scrape_configs"]
    (rule,) = job["metric_relabel_configs"]
    dropped = re.compile(rule["regex"])
    assert rule["action"] == "drop"
    assert dropped.fullmatch("python_info")
    assert not dropped.fullmatch("spec_decode_verdict")
    assert not dropped.fullmatch("process_cpu_seconds_total")
