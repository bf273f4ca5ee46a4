"""Environment of the templates: formats, escaping, and names that do not exist."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from spec_decode_exporter.core import number_formats
from spec_decode_exporter.views.templating import NOTHING, between, environment, moment, number, sentences

HTML = environment("spec_decode_exporter.views", html=True)
TEXT = environment("spec_decode_exporter.views", html=False)


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


@given(st.text())
def test_no_text_breaks_the_markup(text):
    template = HTML.from_string('<p title="{{ text }}">{{ text }}{{ sentences(text) }}</p>')
    reading = Reading(template.render(text=text))
    assert set(reading.elements) <= {"p", "code"}
    assert [key for key, _ in reading.attributes] == ["title"]
    if not set(text) & {"\r", "\0", "`"}:
        assert reading.text == 2 * text


@pytest.mark.parametrize("its", [HTML, TEXT], ids=["html", "text"])
def test_a_name_that_does_not_exist_is_an_error(its):
    with pytest.raises(UndefinedError):
        its.from_string("{{ missing }}").render()


def test_code_in_sentences_is_shown_as_code():
    assert sentences("run `a b`, then <c>") == "run <code>a b</code>, then &lt;c&gt;"
    assert sentences("a lone ` stays") == "a lone ` stays"


def test_formats_have_thin_spaces_in_html_alone():
    text = "{{ 1234567 | count }} {{ 0.612 | percent }} {{ percent(none) }}"
    assert TEXT.from_string(text).render() == "1,234,567 61.2 % -"
    assert HTML.from_string(text).render() == "1\u202f234\u202f567 61.2\u202f% -"


def test_a_number_has_its_exact_value_and_no_value_is_not_0():
    assert number(0.61249, number_formats.plain) == '<data value="0.61249">0.61</data>'
    assert number(None, number_formats.plain) == NOTHING
    assert between(None, None, number_formats.plain) == ""
    assert Reading(between(1.2, 1.35, number_formats.plain)).text == "1.20\u20131.35"


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (-5, "0 s ago"), (3, "3 s ago"), (90, "1 min 30 s ago"), (7200, "2 h 0 min ago"),
    ],
)  # fmt: skip
def test_a_moment_is_an_age_with_its_exact_time(seconds, age):
    html = moment(1_790_000_000, 1_790_000_000 + seconds)
    assert f">{age}<" in html
    assert 'datetime="2026-09-21T14:13:20.000+00:00" title="2026-09-21 14:13:20 UTC"' in html
