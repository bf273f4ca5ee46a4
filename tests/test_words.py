"""The word list finds phrases and docstring openings, and ignores identifiers and keys."""

from __future__ import annotations

import textwrap

import pytest

from tests import words


def found(text, name="a.md"):
    return list(words.violations(name, textwrap.dedent(text)))


@pytest.mark.parametrize(
    ("text", "phrase", "term"),
    [
        ("It is learnt anew.", "learnt", "learned"),
        ("The list is read anew.", "anew", "again, reset or from scratch"),
        ("One window is held against another.", "held against", "compared with"),
        ("Nobody reads it.", "Nobody", "the actor, or the condition"),
    ],
)
def test_a_phrase_is_reported_with_its_line_and_its_term(text, phrase, term):
    assert f"a.md:2: {phrase!r}: write {term}" in found(f"# Title\n{text}\n")


def test_every_phrase_of_a_line_is_reported():
    assert len(found("Nobody is told of strangers.")) == 3


@pytest.mark.parametrize("text", ["nobody_knows = 1", "keeper-1", "anew2", "renewed", "class Beholder: ..."])
def test_a_phrase_inside_an_identifier_is_ignored(text):
    assert found(text) == []


@pytest.mark.parametrize("text", ['saved["learnt"]', '{"judged": 3}'])
def test_a_quoted_key_is_ignored(text):
    assert found(text) == []


@pytest.mark.parametrize("opening", ["What", "Who", "Whether", "How", "Whose", "Those", "Where", "When"])
@pytest.mark.parametrize(
    "code",
    [
        '"""{} it is."""',
        'def f():\n    """{} it is."""',
        'class C:\n    """{} it is."""',
        'async def f():\n    """{} it is."""',
    ],
)
def test_a_docstring_that_begins_with_a_question_word_is_reported(code, opening):
    [violation] = found(code.format(opening), "a.py")
    assert f"begins with {opening!r}" in violation


@pytest.mark.parametrize("attribute", ["size: int", "size = 3", "size: int = 3"])
def test_a_docstring_of_an_attribute_of_the_package_is_checked_too(attribute):
    for code in (
        f'{attribute}\n"""Whether it is."""',
        f'class C:\n    {attribute}\n    """Whether it is."""',
    ):
        [violation] = found(code, "exporter/a.py")
        assert "begins with 'Whether'" in violation
        assert found(code.replace("Whether it is", "True if it is"), "exporter/a.py") == []


def test_a_text_after_a_call_is_no_docstring():
    assert found('print()\n"""Whether it is."""', "exporter/a.py") == []


@pytest.mark.parametrize("docstring", ["Return the whole.", "Whatever", "Howitzer.", "However"])
def test_other_docstrings_are_accepted(docstring):
    assert found(f'"""{docstring}"""', "a.py") == []


def test_the_opening_of_a_comment_or_a_markdown_file_is_ignored():
    assert found("# What it is\n", "a.py") == []
    assert found("What it is\n", "a.md") == []


EXAMPLES = (
    "anew",
    "nobody",
    "whoever",
    "so many",
    "hold it against",
    "beyond doubt",
    "strangers",
    "heeds",
    "turned away",
    "gives way",
    "of ours",
    "told once",
    "learnt",
    "what is usual",
    "looks at",
    "goes by",
    "makes up for",
    "meanwhile",
    "keeper",
    "judges",
)


@pytest.mark.parametrize(("pattern", "example"), list(zip(words.REPLACEMENTS, EXAMPLES, strict=True)))
def test_every_phrase_of_the_list_is_found(pattern, example):
    [violation] = found(f"The text {example} it.")
    assert violation.endswith(f"{example!r}: write {words.REPLACEMENTS[pattern]}")


def test_names_with_a_known_suffix_are_read_and_the_changelog_is_not():
    names = words.tracked()
    assert "tests/conftest.py" in names
    assert "CHANGELOG.md" not in names
    assert not any(name.endswith(".png") for name in names)


def test_the_exit_status_is_1_with_a_violation(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.md").write_text("Nobody.\n")
    (tmp_path / "b.md").write_text("A sentence.\n")
    monkeypatch.setattr(words, "CHECKOUT", tmp_path)
    monkeypatch.setattr(words, "tracked", lambda: ["a.md", "b.md"])
    assert words.main(["b"]) == 0
    assert words.main([]) == 1
    assert capsys.readouterr().out.count("a.md:1:") == 1
