"""HTML of a document: its links, its anchors, and nothing that a browser would run."""

from __future__ import annotations

import pytest

from spec_decode_exporter.web.documentation.rendering import render

SERVED = frozenset({"semantics.md", "runbooks/A.md", "files/rules/arms.yml", "files/dashboards/a.json"})


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("[a](../semantics.md#x)", '<p><a href="../semantics.md#x">a</a></p>\n'),
        ("[a](../configuration.md)", "<p>a</p>\n"),
        ("[a](../maintainers/x.md) and [b](A.md)", '<p>a and <a href="A.md">b</a></p>\n'),
        (
            "[a](../../config/prometheus/rules/arms.yml)",
            '<p><a href="../files/rules/arms.yml">a</a></p>\n',
        ),
        (
            "[a](../../grafana/dashboards/a.json)",
            '<p><a href="../files/dashboards/a.json">a</a></p>\n',
        ),
        ("[a](https://docs.vllm.ai)", '<p><a href="https://docs.vllm.ai">a</a></p>\n'),
        ("[a](//evil.example/semantics.md)", "<p>a</p>\n"),
        ("[a](/etc/passwd)", "<p>a</p>\n"),
        ("[a](#b)", '<p><a href="#b">a</a></p>\n'),
        ("![a](x.png)", "<p></p>\n"),
        ("<!-- a\n-->b", "<p>b</p>\n"),
        ("<script>a</script>", "<p>&lt;script&gt;a&lt;/script&gt;</p>\n"),
        ("[a](javascript:alert)", "<p>[a](javascript:alert)</p>\n"),
        ('[a](A.md "x\\"><b>")', '<p><a href="A.md" title="x&quot;&gt;&lt;b&gt;">a</a></p>\n'),
    ],
)
def test_links_to_served_files_are_kept_and_html_is_shown(text, html):
    assert render(text, "runbooks/B.md", SERVED).html == html


def test_an_aligned_table_has_no_inline_style_as_the_security_policy_forbids_it():
    html = render("| a |\n|---:|\n| b |\n", "semantics.md", SERVED).html
    assert "<td>b</td>" in html
    assert "style" not in html


def test_headings_have_the_anchors_of_github():
    html = render("## Does it `pay`, really?\n\n## Same\n\n## Same\n", "semantics.md", SERVED).html
    assert '<h2 id="does-it-pay-really">' in html
    assert '<h2 id="same">' in html
    assert '<h2 id="same-1">' in html


def test_the_title_is_the_first_heading_or_the_path():
    assert render("# A `b` <c>\n\n## D\n", "semantics.md", SERVED).title == "A b <c>"
    assert render("a", "semantics.md", SERVED).title == "semantics.md"
