"""Speculation settings on the command lines of pods."""

import json
import shlex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spec_decode_exporter.config.batch_schedule import SCHEDULE_KEY, BatchSchedule
from spec_decode_exporter.discovery.vllm_command_line import (
    _split,
    config_speculation,
    pod_speculation,
    speculator_method,
)
from spec_decode_exporter.scrape.server_info import ServedSpeculation, speculation_of

EAGLE = {"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1", "num_speculative_tokens": 3}
EAGLE_JSON = json.dumps(EAGLE)
EXPECTED = ServedSpeculation("eagle3", 3, "yuhuili/EAGLE3-LLaMA3.1")


@pytest.mark.parametrize(
    "words",
    [
        ["vllm", "serve", "m", "--speculative_config", EAGLE_JSON],
        ["--speculative-config", '{"method": "ngram"}', "--speculative-config", EAGLE_JSON],
        ["--spec-method", "eagle3", "--spec-model=yuhuili/EAGLE3-LLaMA3.1", "--spec-tokens", "3"],
        shlex.split("-sc.method eagle3 -sc.model=yuhuili/EAGLE3-LLaMA3.1 --speculative-config.num_speculative_tokens 3"),
        ["bash", "-c", f"export A=1; vllm serve m \\\n  -sc='{EAGLE_JSON}' \\\n  --port 1 && echo don\\'t"],
        ["bash", "-c", f"# it's a comment\n(vllm serve m --speculative-config '{EAGLE_JSON}')"],
    ],
    ids=["underscore", "repeated", "short flags", "keys after a dot", "a script", "a comment"],
)  # fmt: skip
def test_every_spelling_is_read(words):
    assert pod_speculation(words, {}) == EXPECTED


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--speculative-config"],
        ["--speculative-config", "$(NOT_KNOWN)"],
        ["--speculative-config", "$$(SPECULATION)"],
        ["--speculative-config", "{}"],
        ["--speculative-config", '{"method": 5}'],
        [
            "--speculative-config",
            '{"rejection_sample_method": "fly", "enable_adaptive_verification": true, "parallel_drafting": true}',
        ],
        ["--speculative-config", "[" * 100_000],
        ["--speculative-config", "$(BIG)" * 2000],
        ["sh", "-c", 'vllm serve --speculative-config \'{"method": "ngram"}'],
        ["echo", "a --speculative-configuration {}"],
    ],
)
def test_a_command_line_without_settings_is_none(words):
    assert pod_speculation(words, {"BIG": "x" * 100_000, "SPECULATION": EAGLE_JSON}) is None


@pytest.mark.parametrize(
    ("settings", "method", "draft_model"),
    [
        ({"model": "[ngram]"}, "ngram", ""),
        ({"model": "yuhuili/EAGLE-LLaMA3-8B"}, "eagle", "yuhuili/EAGLE-LLaMA3-8B"),
        ({"model": "AngelSlim/Qwen3-8B_eagle3"}, "eagle3", "AngelSlim/Qwen3-8B_eagle3"),
        ({"model": "Qwen/Qwen3-0.6B"}, "", "Qwen/Qwen3-0.6B"),
        ({"method": "draft_model", "model": "Qwen/Qwen3-0.6B"}, "draft_model", "Qwen/Qwen3-0.6B"),
        ({"method": "deepseek_mtp"}, "mtp", ""),
        ({"method": "suffix"}, "suffix", ""),
    ],
)
def test_the_method_is_that_of_vllm_and_unknown_if_it_depends_on_the_draft_models_files(
    settings, method, draft_model
):
    found = pod_speculation(["-sc", json.dumps(settings)], {})
    assert (found.method, found.draft_model) == (method, draft_model)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-sc", '{"method": "ngram", "num_speculative_tokens": 4}', "-sc.method", "mtp"], ServedSpeculation("mtp")),
        (["-sc", '{"method": "dspark"}', "-sc.method", "dspark", "-sc.enable_adaptive_verification", "true"], ServedSpeculation("dspark", is_adaptive=True)),
        (["-sc", '{"method": "eagle3", "parallel_drafting": true}'], ServedSpeculation("eagle3", drafts_in_parallel=True)),
        (["--speculative_model", "[ngram]", "--num_speculative_tokens", "5"], ServedSpeculation("ngram", 5)),
        (["-sc", json.dumps({"method": "mtp", SCHEDULE_KEY: [[1, 16, 4], [17, 64, 0]]})], ServedSpeculation("mtp", schedule=BatchSchedule((1, 17), (4, 0)))),
    ],
    ids=["keys after a dot replace the whole configuration", "adaptive verification", "parallel drafting", "old flags", "schedule by batch size"],
)  # fmt: skip
def test_flags_mean_what_they_mean_to_vllm(words, expected):
    assert pod_speculation(words, {}) == expected


def test_a_word_that_a_variable_makes_too_long_is_not_read():
    value = '{"method": "mtp"' + " " * 20_000 + "}"
    assert pod_speculation(["-sc", "$(A)"], {"A": value}) is None
    short = value.replace(" " * 10_000, "")
    assert pod_speculation(["-sc", "$(A)"], {"A": short}) == ServedSpeculation("mtp")
    assert pod_speculation(["-sc", "$(A)", "$(A)" * 4000], {"A": short}) == ServedSpeculation("mtp")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=8,
)
names = st.text(st.characters(codec="ascii", exclude_characters="\x00$"), min_size=1, max_size=12)


@settings(max_examples=50)
@given(
    st.fixed_dictionaries(
        {"method": st.sampled_from(["eagle3", "ngram", "mtp", "draft_model", "it's"])},
        optional={"model": names, "num_speculative_tokens": st.integers(1, 128), "more": json_values},
    )
)
@example({"method": "eagle3", "model": "a b'c\"d\\e"})
def test_all_spellings_have_the_same_meaning(settings):
    expected = speculation_of(settings)
    text = json.dumps(settings)
    shell = shlex.join(["vllm", "serve", "m", "--speculative-config", text, "--port", "1"])
    lines = f"--port\n1\n--speculative-config\n{json.dumps(settings, indent=1)}\n--host\nx"
    for words in (["--speculative-config", text], ["-sc=" + text], ["sh", "-c", f"true && {shell}; true"]):
        assert pod_speculation(words, {}) == expected
    assert pod_speculation(["-sc", "$(X)"], {"X": text}) == expected
    for written in (text, shell, lines):
        assert config_speculation(written) == expected


@pytest.mark.parametrize("text", ["", "{", "{}", "ngram", "vllm serve m"])
def test_a_configuration_without_settings_is_rejected(text):
    with pytest.raises(ValueError, match="vLLM's JSON"):
        config_speculation(text)


script_pieces = st.lists(
    st.sampled_from([" ", "\t", "\n", "\r", "#", "'", '"', "\\", ";", "&&", "|", "(", ")", "<", ">", "a", "b=1", "$A",
                     "''", "\\\n", "\u00a0", "\x0b", "\ud800"]),
    max_size=25,
).map("".join)  # fmt: skip


@settings(max_examples=200)
@given(script_pieces | st.text(max_size=20))
@example("a#b c\nd")
@example("''#x\n\"\\\"\" 'a'\\ b")
def test_words_are_those_of_shlex(script):
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    try:
        expected = tuple(lexer)
    except ValueError:
        expected = ()
    assert _split(script) == expected


SPEC_JSON = '{"method": "mtp", "num_speculative_tokens": 2}'
MTP = ServedSpeculation("mtp", 2)
QUOTED = f"--disable-uvicorn-access-log --speculative-config '{SPEC_JSON}'"
KSERVE = ["/bin/bash", "-c", 'eval "vllm serve /mnt/models --served-model-name m ${VLLM_ADDITIONAL_ARGS}"']
SHELL = ["/bin/sh", "-c", "exec vllm serve m $EXTRA_ARGS"]


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (KSERVE, {"VLLM_ADDITIONAL_ARGS": QUOTED}),
        (["vllm", "serve", "m", "$(EXTRA_ARGS)"], {"EXTRA_ARGS": QUOTED}),
        (SHELL, {"EXTRA_ARGS": "--speculative-config.method mtp --speculative-config.num_speculative_tokens 2"}),
        (["vllm", "serve", "m", "$(EXTRA_ARGS)"], {"EXTRA_ARGS": "--spec-method=mtp --spec-tokens=2"}),
        (SHELL, {"EXTRA_ARGS": f"--speculative-config={SPEC_JSON.replace(' ', '')}"}),
        (SHELL, {"EXTRA_ARGS": '--speculative-config "' + SPEC_JSON.replace('"', '\\"') + '"'}),
        (SHELL, {"SPEC": SPEC_JSON, "EXTRA_ARGS": "--port 1 --speculative-config '$(SPEC)'"}),
        (["sh", "-c", 'vllm serve m --speculative-config="$SPEC"'], {"SPEC": SPEC_JSON}),
        (["sh", "-c", 'vllm serve m -sc "{\\"method\\": \\"$M\\", \\"num_speculative_tokens\\": ${K:-5}}"'], {"M": "mtp", "K": "2"}),
        (["sh", "-c", "vllm serve m $A ${B:-}"], {"A": "--spec-method mtp", "B": "--spec-tokens 2"}),
        (["sh", "-c", "vllm serve m '--speculative-config={\"method\": \"mtp\", \"num_speculative_tokens\": 2}'"], {}),
        ([], {"VLLM_ADDITIONAL_ARGS": QUOTED}),
        (["/mnt/entrypoint.sh", "--port", "8000"], {"VLLM_ADDITIONAL_ARGS": QUOTED, "NOTE": "a"}),
        (["/run"], {"START": f"exec vllm serve m --speculative-config '{SPEC_JSON}'"}),
        (["--speculative-config", "$(SPEC)"], {"SPEC": SPEC_JSON}),
        (["/run"], {"VLLM_ARGS": QUOTED, "EXTRA_ARGS": "$(VLLM_ARGS) --port 1"}),
    ],
)  # fmt: skip
def test_flags_in_variables_are_read_however_they_are_quoted(words, environ):
    assert pod_speculation(words, environ) == MTP


@pytest.mark.parametrize(
    ("words", "environ", "expected"),
    [
        (["vllm", "serve", "m", "--spec-method", "ngram"], {"EXTRA_ARGS": QUOTED}, ServedSpeculation("ngram")),
        (["vllm", "serve", "m", "--speculative-config", "$(SECRET)"], {"EXTRA_ARGS": QUOTED}, None),
        (["vllm", "serve", "m"], {"NOTE": QUOTED}, None),
        (["vllm", "serve", "m"], {"NOTE": f"slower with --speculative-config '{SPEC_JSON}'"}, None),
        (["vllm", "serve", "m"], {"SPEC_CONFIG": SPEC_JSON, "METHOD": "mtp"}, None),
        (["vllm", "serve", "m"], {"PREFILL_ARGS": QUOTED, "DECODE_ARGS": "--spec-method ngram"}, None),
        (["vllm", "serve", "m", "$EXTRA"], {"EXTRA": "$EXTRA --spec-method"}, None),
        (["sh", "-c", "$A" * 50], {"A": "$A --spec-method " * 900}, None),
    ],
    ids=["its own flags", "of a Secret", "another meaning", "prose", "no flags", "two that differ", "an endless variable", "a bomb"],
)  # fmt: skip
def test_a_variable_that_no_command_names_counts_only_as_arguments_beside_a_command_without_flags(
    words, environ, expected
):
    assert pod_speculation(words, environ) == expected


EAGLE3_CHECKPOINT = "RedHatAI/Qwen3-8B-speculator.eagle3"


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (EAGLE3_CHECKPOINT, "eagle3"),
        ("/models/Llama-3.3-70B-Instruct-speculators.eagle3/", "eagle3"),
        ("RedHatAI/Qwen3-8B-speculator.peagle", "eagle3"),
        ("RedHatAI/Qwen3-30B-A3B-speculator.dflash", "dflash"),
        ("RedHatAI/GLM-5.2-speculator.dspark-block16", "dspark"),
        ("Qwen3-Next-80B-speculator.mtp", "mtp"),
        ("/hub/models--RedHatAI--Qwen3-8B-speculator.eagle3/snapshots/1", "eagle3"),
        ("Qwen/Qwen3-8B", ""),
        ("AngelSlim/Qwen3-8B_eagle3", ""),
        ("a/speculator.eagle30", ""),
        ("market-speculator.v2", ""),
    ],
)
def test_the_name_of_a_speculators_checkpoint_names_its_method(model, method):
    assert speculator_method(model) == method


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["vllm", "serve", EAGLE3_CHECKPOINT, "--port", "1"], ServedSpeculation("eagle3", draft_model=EAGLE3_CHECKPOINT)),
        (["python3", "-m", "x", f"--model={EAGLE3_CHECKPOINT}"], ServedSpeculation("eagle3", draft_model=EAGLE3_CHECKPOINT)),
        (["sh", "-c", f"vllm serve {EAGLE3_CHECKPOINT} --spec-tokens 2"], ServedSpeculation("eagle3", 2, EAGLE3_CHECKPOINT)),
        (["vllm", "serve", "m", "-sc", '{"model": "a/b-speculator.peagle"}'], ServedSpeculation("eagle3", draft_model="a/b-speculator.peagle")),
        (["vllm", "serve", "m", "--served-model-name", EAGLE3_CHECKPOINT], None),
    ],
    ids=["vllm serve", "--model", "with K", "as a draft model", "another flag"],
)  # fmt: skip
def test_a_speculators_checkpoint_that_is_served_is_its_own_draft_model(words, expected):
    assert pod_speculation(words, {}) == expected
