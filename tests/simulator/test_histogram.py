from __future__ import annotations

import re

import pytest

from spec_decode_exporter.simulator.histogram import token_bounds


@pytest.mark.parametrize(("largest", "last"), [(1024, 1000.0), (8192, 5000.0), (1, 1.0), (2000, 2000.0)])
def test_token_bounds_end_at_the_last_step_that_a_request_can_reach(largest, last):
    assert token_bounds(largest)[-1] == last


def test_token_bounds_are_those_of_the_recorded_page(recorded):
    page = recorded("vllm-0.32.0-python-ngram-k4.prom")
    bounds = re.findall(r'^vllm:request_prompt_tokens_bucket\{engine="0",le="([0-9.]+)"', page, re.MULTILINE)
    assert [str(bound) for bound in token_bounds(1024)] == bounds
