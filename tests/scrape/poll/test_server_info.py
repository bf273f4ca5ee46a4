from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation, served_speculation

RECORDED = Path(__file__).parents[2] / "pages" / "server_info"
DRAFT_MODEL = ServedSpeculation("draft_model", 4, "/models/draft")
NGRAM = ServedSpeculation("ngram", 4, "")


def answer(**settings):
    return json.dumps({"vllm_config": {"speculative_config": settings}}).encode()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vllm-0.32.0-draft-model.json", DRAFT_MODEL),
        ("vllm-0.32.0-draft-model-text.json", DRAFT_MODEL),
        ("vllm-0.32.0-ngram.json", NGRAM),
        ("vllm-0.32.0-ngram-text.json", NGRAM),
    ],
)
def test_vllms_responses_are_read_as_json_and_as_text(name, expected):
    found = served_speculation((RECORDED / name).read_bytes())
    assert found == replace(expected, rejection_method="" if "text" in name else "standard")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"<html>",
        b"null",
        b"[]",
        b"{}",
        b'{"detail":"Not Found"}',
        b'{"vllm_config":null}',
        b'{"vllm_config":{}}',
        b'{"vllm_config":{"speculative_config":null}}',
        b'{"vllm_config":{"speculative_config":[]}}',
        b"{\"vllm_config\":\"model='m', speculative_config=None, tokenizer='m'\"}",
        b'{"vllm_config":"speculative_config=SpeculativeConfig(draft_model=\'m\', num_spec_tokens=4)"}',
        b'{"vllm_config":{"speculative_config":{"num_speculative_tokens":' + b"9" * 5000 + b"}}}",
        b"[" * 100_000,
    ],
    ids=range(15),
)
def test_a_response_without_speculation_settings_is_none(body):
    assert served_speculation(body) is None


@pytest.mark.parametrize("tokens", [0, -1, 129, 4.0, "4", True, None, [4]])
def test_an_invalid_number_of_tokens_is_unknown(tokens):
    assert served_speculation(answer(method="mtp", num_speculative_tokens=tokens)) == ServedSpeculation("mtp")


@pytest.mark.parametrize("text", [None, 5, "", "a\nb", "\ud800", "\x1b[2J", "x" * 257, {"a": "b"}])
def test_text_that_cannot_be_a_label_is_unknown(text):
    served = served_speculation(answer(method=text, model=text, rejection_sample_method=text))
    assert served == ServedSpeculation()


def test_the_rejection_method_is_read():
    served = served_speculation(answer(method="mtp", rejection_sample_method="fly"))
    assert served == ServedSpeculation("mtp", rejection_method="fly")
    assert served_speculation(answer(rejection_sample_method="x" * 65)) == ServedSpeculation()


def test_long_paths_of_draft_models_are_kept_and_long_methods_are_not():
    served = served_speculation(answer(method="x" * 65, model="/" * 256))
    assert served == ServedSpeculation(draft_model="/" * 256)


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu", "suffix", "custom_class"])
def test_a_method_without_a_draft_model_has_none_whatever_vllm_reports(method):
    assert served_speculation(answer(method=method, model=method)) == ServedSpeculation(method)


def test_a_schedule_by_batch_size_is_read():
    schedule = [[17, 64, 0], [1, 16, 4]]
    served = served_speculation(answer(method="mtp", num_speculative_tokens_per_batch_size=schedule))
    assert served == ServedSpeculation("mtp", schedule=BatchSchedule((1, 17), (4, 0)))


@pytest.mark.parametrize(
    "schedule", [5, "x", {"a": 1}, [5], [[1, 16]], [[1, 16, "4"]], [[1, 16, 4], None], [[1, 1, 1]] * 65]
)
def test_an_invalid_schedule_is_unknown_and_has_a_reason(schedule):
    served = served_speculation(answer(method="mtp", num_speculative_tokens_per_batch_size=schedule))
    assert served == ServedSpeculation("mtp", problem=served.problem)
    assert (
        served.problem.startswith("num_speculative_tokens_per_batch_size has ")
        or "is not a list" in served.problem
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "vllm_config",
                        "speculative_config",
                        "method",
                        "model",
                        "num_speculative_tokens",
                        "num_speculative_tokens_per_batch_size",
                        "rejection_sample_method",
                    ]
                ),
                inner,
            )
        ),
    )
)
def test_any_json_gives_printable_settings_or_none(document):
    served = served_speculation(json.dumps(document).encode()) or ServedSpeculation()
    (served.method + served.draft_model + served.rejection_method).encode()
    assert served.tokens is None or 0 < served.tokens <= 128
