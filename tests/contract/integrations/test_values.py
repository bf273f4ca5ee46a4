"""Values of the queries of KEDA, computed by Prometheus' own test program."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.contract.rules.shipped import needs

from .shipped import keda_queries

pytestmark = needs("promtool")

TIME, LOAD = keda_queries().values()
POD = 'namespace="inference", pod="{pod}", target="{pod}"'


def of(pod, name, values, *, window=True):
    """Return an input series of an engine."""
    labels = POD.format(pod=pod) + (', window="5m"' if window else "")
    return {"series": f"{name}{{{labels}}}", "values": values}


def engine(pod, seconds, tokens, first, running, crossover=None):
    """Return the series that KEDA reads of an engine; None is a series that is absent."""
    found = []
    if seconds is not None:
        found.append(of(pod, "spec_decode_window_decode_seconds", f"{seconds}x10"))
        if tokens > first:
            mean = seconds / (tokens - first)
            found.append(of(pod, "spec_decode_time_per_output_token_seconds", f"{mean}x10"))
    if running is not None:
        found.append(of(pod, "spec_decode_running_requests", f"{running}x10"))
    if crossover is not None:
        found.append(of(pod, "spec_decode_crossover_running_requests", f"{crossover}x10", window=False))
    return found


BUSY = engine("vllm-0", 50, 2100, 100, 12, 20) + engine("vllm-1", 30, 2100, 100, 6, 10)
OTHER = engine("chat-0", 500, 1100, 100, 90, 10)


def value(tmp_path, series, query, at="5m"):
    """Let promtool evaluate a query; return its value, or None without one."""
    asked = {"expr": query, "eval_time": at, "exp_samples": [{"labels": "never{}", "value": 0}]}
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": [asked]}]
    path = tmp_path / "test.json"
    path.write_text(
        json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": tests}), encoding="utf-8"
    )
    run = subprocess.run(
        [shutil.which("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )
    (got,) = [
        line.split("got:", 1)[1].strip() for line in (run.stdout + run.stderr).splitlines() if "got:" in line
    ]
    return None if got == "nil" else float(got.removeprefix("{} "))


@pytest.mark.parametrize(
    ("series", "milliseconds"),
    [
        (BUSY, 20),  # 80 s in decode steps, 4000 tokens after the first
        (BUSY + OTHER, 20),
        (engine("vllm-0", 0, 0, 0, 0), 0),  # idle: a replica may go
        (engine("vllm-0", None, 2100, 100, 12), None),  # requests run, and their time is unknown
        (engine("vllm-0", None, None, None, None), None),  # the server is away
        (OTHER, None),
    ],
    ids=["busy", "others", "idle", "unknown time", "unreachable", "others only"],
)
def test_the_time_per_output_token_is_that_of_all_tokens(tmp_path, series, milliseconds):
    assert value(tmp_path, [*series, {"series": "up", "values": "1x10"}], TIME) == milliseconds


@pytest.mark.parametrize(
    ("series", "load"),
    [
        (BUSY, 0.6),  # 18 of 30 requests
        (BUSY + OTHER, 0.6),
        (BUSY + engine("vllm-2", 9, 900, 9, 40), 0.6),  # an engine without a crossover has no weight
        (engine("vllm-0", 50, 2100, 100, 12), 0),  # unknown crossover: this metric asks for nothing
        (engine("vllm-0", 0, 0, 0, 0, 20), 0),
        (engine("vllm-0", None, None, None, None), None),
    ],
    ids=["busy", "others", "without crossover", "unknown crossover", "idle", "unreachable"],
)
def test_the_load_is_relative_to_the_crossovers(tmp_path, series, load):
    assert value(tmp_path, [*series, {"series": "up", "values": "1x10"}], LOAD) == load
