"""YAML within bounds."""

from __future__ import annotations

import pytest

from spec_decode_exporter.config import yaml_loader
from spec_decode_exporter.config.yaml_loader import NotAListError
from spec_decode_exporter.config.yaml_tree import MAX_YAML_PROBLEMS, TreeReader, YamlError, parse, parse_items


def items(text: str):
    reader = TreeReader()
    return [reader.read(node) for node in parse_items(text.encode())]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(yaml_loader, "MAX_NODES", 200)
    monkeypatch.setattr(yaml_loader, "MAX_ITEM_NODES", 50)
    monkeypatch.setattr(yaml_loader, "MAX_LIST_NODES", 200)
    monkeypatch.setattr(yaml_loader, "MAX_TEXT", 5000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {" + "? , " * 200 + "}", "has more than 200 values"),
        ("&a [" + "*a," * 200 + "]", "has more than 200 values"),
        ('a: "' + "\\x41" * 20_000 + '"', "has a text of more than 5000 characters"),
        ("&" + "a" * 20_000 + " x", "has a text of more than 5000 characters"),
        ("!" + "a" * 20_000 + " x", "has a text of more than 5000 characters"),
        ("".join(f"%TAG !a{n}! b\n" for n in range(20)) + "---\na: b", "has more than 10 directives"),
    ],
)
def test_a_document_above_a_limit_is_rejected_while_it_is_read(text, message):
    with pytest.raises(YamlError, match=message) as caught:
        parse(text.encode())
    assert caught.value.line is not None


def test_many_short_texts_and_long_comments_are_no_long_text():
    text = "# " + "x " * 20_000 + "\n" + "\n" * 20_000 + "".join(f"k{n}: {'x' * 900}\n" for n in range(40))
    assert len(TreeReader().read(parse(text.encode()))) == 40


def test_an_alias_finds_its_anchor_in_another_item():
    assert items("- &a {x: y}\n- z\n- [*a, *a]\n") == [{"x": "y"}, "z", [{"x": "y"}] * 2]


def test_an_empty_document_has_no_items_and_a_second_one_is_an_error():
    assert items("") == items("# nothing\n") == items("[]") == []
    with pytest.raises(YamlError, match="there is a second document"):
        items("- a\n---\n- b\n")


@pytest.mark.parametrize("text", ["a: b", "a", "'- a'"])
def test_what_is_not_a_list_has_no_items(text):
    with pytest.raises(NotAListError):
        items(text)


def test_no_more_flaws_are_collected_than_the_limit(monkeypatch):
    monkeypatch.setattr(yaml_loader, "MAX_NODES", 10**6)
    reader = TreeReader()
    reader.read(parse(b"[" + b"!x a," * (MAX_YAML_PROBLEMS + 5) + b"]"))
    assert len(reader.problems) == len(reader.broken) == MAX_YAML_PROBLEMS
