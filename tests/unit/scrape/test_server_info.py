import json

import pytest

from spec_decode_exporter.scrape.server_info import (
    ServedSpeculation,
    labelled_speculation,
    served_speculation,
)


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


MODEL, DRAFTER = "meta-llama/Llama-3.1-8B-Instruct", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"algorithm": "EAGLE3", "num_steps": 3, "draft_model_path": DRAFTER}, ("eagle3", 3, DRAFTER)),
        ({"algorithm": "EAGLE", "num_steps": 3, "draft_model_path": DRAFTER}, ("eagle", 3, DRAFTER)),
        (
            {"algorithm": "EAGLE", "num_steps": 3, "draft_model_path": MODEL},
            ("mtp", 3, ""),
        ),  # as NEXTN is shown
        ({"algorithm": "EAGLE", "num_steps": 1, "draft_model_path": None}, ("mtp", 1, "")),
        ({"algorithm": "NGRAM", "num_steps": None}, ("ngram", None, "")),
        ({"algorithm": "DFLASH", "num_steps": 1, "num_draft_tokens": 16}, ("dflash", 15, "")),
        ({"algorithm": "SOMETHING", "num_steps": "3"}, ("", None, "")),
        ({"algorithm": ["EAGLE"], "num_steps": 3}, ("", 3, "")),
        ({"algorithm": None, "num_steps": None}, None),
    ],
)
def test_the_settings_of_sglang(settings, expected):
    server = {f"speculative_{name}": value for name, value in settings.items()}
    found = served_speculation(json.dumps({"model_path": MODEL, "version": "0.5"} | server).encode())
    assert (found and (found.method, found.tokens, found.draft_model)) == expected
    assert not (found and found.is_adaptive)


def test_sglang_says_whether_it_changes_k():
    body = b'{"speculative_algorithm":"EAGLE","speculative_adaptive":true,"tp_size":0}'
    assert served_speculation(body) == ServedSpeculation("mtp", varies_tokens=True)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"method": "Eagle", "num_tokens": "3", "draft_model": "/m"}, ServedSpeculation("eagle3", 3, "/m")),
        ({"method": "MTP", "num_tokens": "1"}, ServedSpeculation("mtp", 1)),
        (
            {"method": "PARD", "draft_model": "p"},
            ServedSpeculation("draft_model", None, "p", drafts_in_parallel=True),
        ),
        ({"method": "User_Provided", "num_tokens": "many"}, ServedSpeculation()),
        ({"method": "NGram", "num_tokens": "9" * 5000}, ServedSpeculation("ngram")),
    ],
)
def test_the_settings_of_tensorrt_llm(labels, expected):
    assert labelled_speculation({f"spec_{name}": value for name, value in labels.items()}) == expected
