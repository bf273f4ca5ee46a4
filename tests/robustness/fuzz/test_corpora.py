"""Every parser with its whole corpus, and some random inputs: bytes, words, documents of them, and mutated corpora."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.every import every
from tests.paths import DATA
from tests.robustness.fuzz.parsers import HARNESSES

CORPUS = DATA / "fuzz"
ENTRIES = [(name, path) for name in sorted(HARNESSES) for path in sorted((CORPUS / name).iterdir())]
MAX_EXAMPLES = 15


@st.composite
def tampered(draw, data, messes):
    """Return the data with some parts removed, doubled or replaced."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 40)))
        changed = draw(st.sampled_from([b"", data[begin:end] * 2, b"\n", b" "]) | messes)
        data = data[:begin] + changed + data[end:]
    return data


def inputs(name):
    attacked = HARNESSES[name]
    words = st.sampled_from([word.encode() for word in attacked.words])
    messes = st.lists(words | st.binary(max_size=3), max_size=20).map(b"".join)
    entries = [path.read_bytes() for owner, path in ENTRIES if owner == name]
    small = st.sampled_from([entry for entry in entries if len(entry) < 4096] or [b""])
    found = st.binary(max_size=100) | messes | small.flatmap(lambda entry: tampered(entry, messes))
    if not attacked.json:
        return found
    names = st.sampled_from(attacked.words)
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    values = st.recursive(
        scalars | names,
        lambda below: st.lists(below, max_size=4) | st.dictionaries(names, below, max_size=5),
        max_leaves=15,
    )
    return found | values.map(lambda value: json.dumps(value).encode())


@every(ENTRIES, lambda entry: f"{entry[0]}/{entry[1].name}")
def test_an_input_of_the_corpora_breaks_no_parser(entry):
    name, path = entry
    HARNESSES[name].check(path.read_bytes())


@pytest.mark.parametrize("name", HARNESSES)
def test_random_inputs_break_no_parser(name):
    attack = settings(max_examples=MAX_EXAMPLES, suppress_health_check=list(HealthCheck))
    attack(given(inputs(name))(HARNESSES[name].check))()


def test_every_corpus_has_its_parser():
    assert set(HARNESSES) == {path.name for path in CORPUS.iterdir()}
