"""A release can be made of the checkout: its addresses, versions and changelog; `make release-check` builds it."""

from docs.generate import links
from docs.generate.changelog import FRAGMENTS, mistake, with_section
from image.release_check import left_to_do
from spec_decode_exporter import __version__
from tests.every import every
from tests.paths import CHECKOUT

PUBLIC = {
    "Homepage": "https://host/own/exporter",
    "Documentation": "https://host/own/exporter/blob/main/docs",
}
WRITTEN = ("pyproject.toml", *(str(path.relative_to(CHECKOUT)) for path in links.generated()))
"""The files that may have the public addresses."""


def test_the_addresses_of_pyproject_are_those_of_the_chart():
    outdated = [path.name for path, text in links.generated().items() if path.read_text() != text]
    assert outdated == [], "run `make generate`"


@every(
    path
    for place in (
        "*",
        ".github/**/*",
        "config/**/*",
        "docs/**/*.md",
        "exporter/**/*.py",
        "helm/*/*.*",
        "image/*",
    )
    for path in CHECKOUT.glob(place)
    if path.is_file() and str(path.relative_to(CHECKOUT)) not in WRITTEN
)
def test_no_other_file_has_an_address_of_the_project(path):
    assert "https://example.org/spec-decode-exporter" not in path.read_text(
        encoding="utf-8", errors="replace"
    )


def test_a_release_has_a_dated_section_and_no_fragments():
    text = with_section(
        "# Changelog\n\n## 0.0.1 (2026-01-01)\n\n- old\n", ["- a\n", "- b\n"], __version__, "2026-11-26"
    )
    assert text == (
        f"# Changelog\n\n## {__version__} (2026-11-26)\n\n- a\n- b\n\n## 0.0.1 (2026-01-01)\n\n- old\n"
    )
    assert not list(left_to_do(__version__, text, (), PUBLIC))
    for changed in (
        (text, ("a.md",), PUBLIC),
        ("# C\n", (), PUBLIC),
        (text, (), {"Homepage": links.PLACEHOLDER}),
    ):
        assert len(list(left_to_do(__version__, *changed))) == 1


def test_every_fragment_of_the_changelog_is_a_list_of_its_own():
    """There may be none: a release deletes them."""
    mistakes = {path.name: mistake(path.read_text(encoding="utf-8")) for path in FRAGMENTS.glob("*.md")}
    assert not any(mistakes.values()), mistakes
