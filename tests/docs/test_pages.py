"""The documentation that the exporter serves is that of the repository."""

from __future__ import annotations

import pytest

from docs.generate.pages import TARGET, pages, render, served

KNOWN = frozenset({"semantics.md", "runbooks/A.md"})


def test_the_package_contains_the_present_documents_and_no_others():
    written = {path.relative_to(TARGET).as_posix() for path in TARGET.rglob("*.html")}
    assert written == {path.replace(".md", ".html") for path in pages()}
    for path, html in pages().items():
        stored = (TARGET / path).with_suffix(".html").read_text(encoding="utf-8")
        assert stored == html, f"docs/{path} has changed: run `make docs`"


def test_every_runbook_and_what_it_refers_to_is_served():
    assert {"explanation/semantics.md", "reference/metrics.md", "guide/alerts.md"} < set(served())
    assert {path.partition("/")[0] for path in served()} == {"guide", "reference", "explanation", "runbooks"}
    assert len(served()) > 70


def test_the_pages_take_at_most_2_mb_and_contain_no_script():
    assert sum(len(html.encode()) for html in pages().values()) <= 2_000_000
    assert not any("<script" in html or "javascript:" in html for html in pages().values())


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("[a](../semantics.md#x)", '<p><a href="../semantics.md#x">a</a></p>\n'),
        ("[a](../configuration.md)", "<p>a</p>\n"),
        ("[a](../../config/prometheus/settings.yml) and [b](A.md)", '<p>a and <a href="A.md">b</a></p>\n'),
        ("[a](https://docs.vllm.ai)", '<p><a href="https://docs.vllm.ai">a</a></p>\n'),
        ("[a](#b)", '<p><a href="#b">a</a></p>\n'),
        ("![a](x.png)", "<p></p>\n"),
        ("<!-- a\n-->b", "<p>b</p>\n"),
        ("<script>a</script>", "<p>&lt;script&gt;a&lt;/script&gt;</p>\n"),
        ("[a](javascript:alert)", "<p>[a](javascript:alert)</p>\n"),
    ],
)
def test_links_to_served_documents_stay_and_html_is_shown(text, html):
    assert render(text, "runbooks/B.md", KNOWN) == html


def test_headings_have_the_anchors_of_github():
    html = render("## Does it `pay`, really?\n\n## Same\n\n## Same\n", "semantics.md", KNOWN)
    assert '<h2 id="does-it-pay-really">' in html
    assert '<h2 id="same">' in html
    assert '<h2 id="same-1">' in html
