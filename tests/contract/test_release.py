"""A release can be made of the checkout: its addresses, versions and changelog; `make release-check` builds it."""

from dataclasses import replace

import pytest

from docs.generate import links
from docs.generate.changelog import FRAGMENTS, mistake, with_section
from image.release_check import Release, addresses, changelog, results, versions
from tests.every import every
from tests.paths import CHECKOUT

NOW = Release.of_checkout(required=False)
PUBLIC = {
    "Homepage": "https://host/own/exporter",
    "Documentation": "https://host/own/exporter/blob/main/docs",
}
WRITTEN = ("pyproject.toml", *(str(path.relative_to(CHECKOUT)) for path in links.generated()))
"""The files that may have the public addresses."""


def outcome(check, **changes):
    ((outcome, text),) = results(replace(NOW, **changes), (check,))
    return outcome, text.partition(": ")[2]


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


@pytest.mark.parametrize(
    ("check", "changes", "expected"),
    [
        pytest.param(versions, {}, "ok", id="the versions agree"),
        pytest.param(versions, {"version": "9.0.0"}, "failed", id="the chart has another appVersion"),
        pytest.param(versions, {"version": "0.1"}, "failed", id="the version has two parts"),
        pytest.param(addresses, {"urls": PUBLIC}, "ok", id="public addresses"),
        pytest.param(addresses, {"urls": {"Homepage": links.PLACEHOLDER}}, "not checked", id="placeholder"),
        pytest.param(
            addresses,
            {"urls": {"Homepage": links.PLACEHOLDER}, "required": True},
            "failed",
            id="a release with the placeholder",
        ),
        pytest.param(
            changelog, {"changelog": "# C\n", "required": True}, "failed", id="no section of the version"
        ),
        pytest.param(changelog, {"changelog": "# C\n"}, "not checked", id="no section before the release"),
    ],
)
def test_a_check_sees(check, changes, expected):
    assert outcome(check, **changes)[0] == expected


def test_a_release_has_a_dated_section_and_no_fragments():
    text = with_section(
        "# Changelog\n\n## 0.0.1 (2026-01-01)\n\n- old\n", ["- a\n", "- b\n"], NOW.version, "2026-11-26"
    )
    assert text == (
        f"# Changelog\n\n## {NOW.version} (2026-11-26)\n\n- a\n- b\n\n## 0.0.1 (2026-01-01)\n\n- old\n"
    )
    assert outcome(changelog, changelog=text, fragments=(), required=True)[0] == "ok"
    assert outcome(changelog, changelog=text, fragments=("a.md",), required=True)[0] == "failed"


def test_every_fragment_of_the_changelog_is_a_list_of_its_own():
    """There may be none: `make changelog` deletes them."""
    mistakes = {path.name: mistake(path.read_text(encoding="utf-8")) for path in FRAGMENTS.glob("*.md")}
    assert not any(mistakes.values()), mistakes
