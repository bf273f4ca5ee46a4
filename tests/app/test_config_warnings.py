"""Warnings about a valid configuration."""

from __future__ import annotations

import pytest

from spec_decode_exporter.app.config_warnings import config_warnings
from spec_decode_exporter.config.schema import Config


def warnings_of(*methods: str) -> list[tuple[str, str]]:
    targets = [
        {"url": f"http://a{number}", "speculative": {"method": method}}
        for number, method in enumerate(methods)
    ]
    return list(config_warnings(Config.model_validate({"targets": targets})))


@pytest.mark.parametrize(
    ("cost", "warned"),
    [
        ({"draft_cost_ratio": 0.3}, True),
        ({"draft_cost_ratio": 0.3, "running_requests": 16}, False),
        ({"draft_parameters": "1B", "target_parameters": "8B"}, False),
    ],
)
def test_a_cost_without_its_load_is_a_warning_wherever_it_is_configured(cost, warned):
    config = Config.model_validate({"cost": cost, "targets": [{"url": "http://a", "cost": cost}]})
    found = list(config_warnings(config))
    assert [key for key, _ in found] == (["cost", "targets[0].cost"] if warned else [])
    assert all("Add `running_requests`" in text for _, text in found)


def test_a_method_that_resembles_none_is_a_warning_with_all_known_ones():
    [(_, text)] = warnings_of("zzz")
    assert "known are ngram, ngram_gpu, suffix" in text
