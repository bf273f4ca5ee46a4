"""Warnings about a valid configuration."""

from __future__ import annotations

from spec_decode_exporter.app.config_warnings import config_warnings
from spec_decode_exporter.config.schema import Config


def warnings_of(*methods: str) -> list[tuple[str, str]]:
    targets = [
        {"url": f"http://a{number}", "speculative": {"method": method}}
        for number, method in enumerate(methods)
    ]
    return list(config_warnings(Config.model_validate({"targets": targets})))


def test_a_method_that_resembles_none_is_a_warning_with_all_known_ones():
    [(_, text)] = warnings_of("zzz")
    assert "known are ngram, ngram_gpu, suffix" in text
