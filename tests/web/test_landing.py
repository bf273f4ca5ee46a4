from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.web.landing import render
from exporter.web.state import TargetRow


class Reading(HTMLParser):
    """What a browser makes of a page: its elements and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.links += [value for name, value in attrs if name == "href"]

    def handle_data(self, data):
        self.text += data


def row(name="chat", up=True, **given):
    plain = {"address": "vllm:8000/metrics", "error": "", "engines": 1, "page": "full", "interval": 1.0}
    return TargetRow(name, up=up, **{**plain, **given})


def test_the_page_names_version_targets_and_links(make_state):
    rows = [row(), row("code", up=False, error="refused", interval=2.5), row("new", up=None, engines=0)]
    reading = Reading(render(make_state(targets=lambda: rows)))
    words = " ".join(reading.text.split())
    assert "spec-decode-exporter 1.2.3" in words
    assert "1 of 3 targets are up." in words
    assert "chat vllm:8000/metrics up 1 full 1 s" in words
    assert "down refused 1 full 2.5 s" in words
    assert "not polled yet" in words
    assert reading.links == ["./static/style.css", "./metrics", "./config", "./-/healthy", "./-/ready"]


def test_without_targets_the_page_says_how_to_name_one(make_state):
    assert "Name one with --target" in render(make_state(targets=list))


def test_a_hostile_name_stays_text(make_state):
    name = '<script>alert("x")</script>\'$version'
    page = render(make_state(targets=lambda: [row(name, address=name, error=name, page=name)], version=name))
    assert "<script" not in page
    assert Reading(page).text.count(name) == 5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_no_text_changes_the_structure_of_the_page(make_state, text):
    plain = Reading(render(make_state(targets=lambda: [row("a", error="a")])))
    strange = Reading(render(make_state(targets=lambda: [row(text, address=text, error=text)])))
    assert strange.elements == plain.elements
    assert strange.links == plain.links
