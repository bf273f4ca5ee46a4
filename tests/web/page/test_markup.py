from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.web.page.markup import joined, sentences, tag


class Reading(HTMLParser):
    """HTML as a browser parses it."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.attributes, self.text = [], [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_markup_stays_and_text_is_escaped():
    assert tag("p", "a < b ", tag("b", "&")) == "<p>a &lt; b <b>&amp;</b></p>"
    assert joined(("<", tag("i"))) == "&lt;<i></i>"


@pytest.mark.parametrize(
    ("plain", "html"),
    [
        ("run `a b`, then <c>", "run <code>a b</code>, then &lt;c&gt;"),
        ("`<i>`", "<code>&lt;i&gt;</code>"),
        ("a lone ` stays", "a lone ` stays"),
        ("", ""),
    ],
)
def test_code_in_sentences_is_shown_as_code(plain, html):
    assert sentences(plain) == html


@given(st.text())
def test_no_text_breaks_the_markup(text):
    reading = Reading(tag("p", text, title=text))
    assert reading.elements == ["p"]
    assert [key for key, _ in reading.attributes] == ["title"]
    if "\r" not in text and "\0" not in text:
        assert reading.text == text
