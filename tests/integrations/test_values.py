"""Values of the queries of autoscalers and of the SLO, computed by Prometheus' own test program."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.rules.shipped import needs

from .shipped import KEDA_MATCHERS, adapter_queries, keda_queries, slo_queries

pytestmark = needs("promtool")

TIME, LOAD = keda_queries().values()
POD = 'namespace="inference", pod="{pod}", target="{pod}"'


def of(pod, name, values, *, window=True):
    """Return an input series of an engine."""
    labels = POD.format(pod=pod) + (', window="5m"' if window else "")
    return {"series": f"{name}{{{labels}}}", "values": values}


def engine(pod, seconds, tokens, first, running, crossover=None):
    """Return the series that the autoscalers read of an engine; None is a series that is absent."""
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


def test_the_adapter_s_queries_have_the_same_values(tmp_path):
    assert [value(tmp_path, BUSY + OTHER, query) for query in adapter_queries(KEDA_MATCHERS).values()] == [
        20,
        0.6,
    ]


def decoding(pod, tokens, speedup):
    """Return an engine that decodes ``tokens`` a minute after the first ones, at some speed-ups."""
    return [
        of(pod, "spec_decode_generation_tokens_total", f"0+{tokens + 10}x30", window=False),
        of(pod, "spec_decode_first_tokens_total", "0+10x30", window=False),
        *([of(pod, "spec_decode_estimated_speedup_ratio", speedup)] if speedup else []),
    ]


@pytest.mark.parametrize(
    ("series", "share"),
    [
        (decoding("vllm-0", 600, "1.5x30") + decoding("vllm-1", 200, "0.8x30"), 0.25),
        (decoding("vllm-0", 600, "1.5x30") + decoding("vllm-1", 200, ""), 0),  # an unknown cost is not bad
        (decoding("vllm-0", 600, "0.9x30"), 1),
        (
            decoding("vllm-0", 600, "1.5x27 0.9 0.9 0.9"),
            pytest.approx(0.55, abs=0.06),
        ),  # 3 of 5 or 6 minutes, by version
        (decoding("vllm-0", 0, "0.9x30"), None),  # no tokens, no share
    ],
    ids=["weighted by tokens", "unknown cost", "all", "part of the time", "idle"],
)
def test_the_slo_counts_tokens_below_break_even(tmp_path, series, share):
    assert value(tmp_path, series, slo_queries("5m")["ratio"], "30m") == share
