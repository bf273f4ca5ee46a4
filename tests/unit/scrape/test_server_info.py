import pytest

from spec_decode_exporter.scrape.server_info import served_speculation


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
