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
    "method", ["eagle3", "[ngram]", "deepseek_mtp", "MTP", "draft_model", "custom_class", "suffix"]
)
def test_a_method_of_vllm_raises_no_warning(method):
    assert warnings_of(method) == []


def test_an_unknown_method_is_a_warning_with_the_nearest_known_one():
    [(key, text)] = warnings_of("eagle3", "egale3")
    assert key == "targets[1].speculative.method"
    assert text.startswith("'egale3' is no method of vLLM")
    assert text.endswith("did you mean eagle3?")


def test_a_method_that_resembles_none_is_a_warning_with_all_known_ones():
    [(_, text)] = warnings_of("zzz")
    assert "known are ngram, ngram_gpu, suffix" in text


def test_targets_without_speculation_raise_no_warning():
    assert list(config_warnings(Config.model_validate({"targets": [{"url": "http://a"}]}))) == []
