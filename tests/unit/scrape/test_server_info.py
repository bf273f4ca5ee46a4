from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.batch_schedule import SCHEDULE_KEY
from spec_decode_exporter.scrape.server_info import ServedSpeculation, served_speculation


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff", b"<html>", b"null", b"[]", b"{}", b'{"detail":"Not Found"}', b'{"vllm_config":null}',
        b'{"vllm_config":{}}', b'{"vllm_config":{"speculative_config":null}}', b'{"vllm_config":{"speculative_config":[]}}',
        b"{\"vllm_config\":\"model='m', speculative_config=None, tokenizer='m'\"}",
        b'{"vllm_config":"speculative_config=SpeculativeConfig(draft_model=\'m\', num_spec_tokens=4)"}',
        b'{"vllm_config":{"speculative_config":{"num_speculative_tokens":' + b"9" * 5000 + b"}}}",
        b"[" * 100_000,
    ],
    ids=lambda body: ascii(body[:80]),
)  # fmt: skip
def test_a_response_without_speculation_settings_is_none(body):
    assert served_speculation(body) is None


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
_fields = ("method", "model", "num_speculative_tokens", SCHEDULE_KEY, "rejection_sample_method")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(_fields, _values)) | _values)
def test_any_json_gives_printable_settings_or_none(settings):
    body = json.dumps({"vllm_config": {"speculative_config": settings}}).encode()
    served = served_speculation(body) or ServedSpeculation()
    (served.method + served.draft_model + served.rejection_method).encode()
    assert served.tokens is None or 0 < served.tokens <= 128
