"""Inputs by Hypothesis: bytes, words of the parser, documents of them, and mutated corpora."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from tests.robustness.fuzz.harness import CORPUS, Harness

_JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def inputs(name: str, attacked: Harness) -> st.SearchStrategy[bytes]:
    words = st.sampled_from([word.encode() for word in attacked.words])
    messes = st.lists(words | st.binary(max_size=3), max_size=20).map(b"".join)
    small = [entry for entry in corpus(name) if len(entry) < 4096]
    found = (
        st.binary(max_size=100)
        | messes
        | st.sampled_from(small or [b""]).flatmap(lambda entry: tampered(entry, messes))
    )
    return found | documents(attacked.words) if attacked.json else found


@st.composite
def tampered(draw, data: bytes, messes: st.SearchStrategy[bytes]) -> bytes:
    """Return the data with some parts removed, doubled or replaced."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 40)))
        data = (
            data[:begin]
            + draw(st.sampled_from([b"", data[begin:end] * 2, b"\n", b" "]) | messes)
            + data[end:]
        )
    return data


def documents(words: tuple[str, ...]) -> st.SearchStrategy[bytes]:
    names = st.sampled_from(words)
    inside = st.recursive(
        _JSON | names,
        lambda below: st.lists(below, max_size=4) | st.dictionaries(names, below, max_size=5),
        max_leaves=15,
    )
    return inside.map(lambda value: json.dumps(value).encode())
