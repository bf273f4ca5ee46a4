"""Links, series, commands, requests, alerts, terms and pictures in the documents exist, and the index names every page."""

import re
import subprocess

import pytest

from benchmarks import __main__ as benchmarks
from spec_decode_exporter.analysis.figure_table import FIGURES
from spec_decode_exporter.analysis.verdict import Action, State, Verdict
from spec_decode_exporter.costs.methods import ANY, KINDS
from spec_decode_exporter.costs.published import POWERS
from spec_decode_exporter.drops.sums import DropKind
from spec_decode_exporter.findings.findings import NAMES
from spec_decode_exporter.scrape.engines import ENGINES
from tests.every import every
from tests.paths import CHECKOUT

from .documents import (
    DOCS,
    alerts,
    commands,
    wrong_command,
    wrong_field,
    wrong_links,
    wrong_request,
    wrong_series,
)

PARTS = ("guide", "reference", "explanation", "maintainers")
PAGES = {path.relative_to(CHECKOUT).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
PAGES |= {name: CHECKOUT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "grafana/README.md")}  # fmt: skip
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
OF_USERS = [name for name in TEXTS if re.match(r"README|docs/(guide|explanation|runbooks)/", name)]
SELECTOR = re.compile(r'spec_decode_\w+(\{(\w+="[^"…]*",? ?)+\})?')
"""A series with or without labels; documents also write ``{basis}`` and ``_bucket``, ``_sum`` for several."""


@every(PAGES)
def test_every_link_and_anchor_leads_somewhere(name):
    assert list(wrong_links(TEXTS[name], PAGES[name])) == []


@every(PARTS)
def test_the_index_names_every_page_of_a_part_with_a_sentence(part):
    (section,) = re.findall(
        rf"^## {part.title()}\n(.*?)(?=^## |\Z)", TEXTS["docs/README.md"], re.MULTILINE | re.DOTALL
    )
    rows = dict(re.findall(r"^- \[[^\]]+\]\(([^)]+)\): (.+)$", section, flags=re.MULTILINE))
    pages = {path.relative_to(DOCS).as_posix() for path in (DOCS / part).glob("*.md")}
    assert {*rows} - {"maintainers/decisions/README.md"} == pages
    assert all(sentence.endswith(".") for sentence in rows.values())


@every(OF_USERS)
def test_every_series_label_state_alert_finding_and_field_exists(name):
    prose = re.sub(r"^```.*?^```", "", TEXTS[name], flags=re.MULTILINE | re.DOTALL)
    names = re.findall(r"`([^`\n]+)`", prose)
    own = [one for one in names if SELECTOR.fullmatch(one)]
    assert {one: wrong for one in own if (wrong := wrong_series(one))} == {}
    assert alerts(names) == set()
    fields = [one for one in names if re.match(r"(engines|experiments)\[\]\.[\w.\[\]]+$", one)]
    assert [one for one in fields if wrong_field(one)] == []
    assert set(re.findall(r"finding `(\w+)`", TEXTS[name])) <= {*NAMES}


@every(OF_USERS)
def test_every_command_is_valid_and_every_request_to_the_api_has_a_known_path_and_fields(name):
    for line in commands(TEXTS[name]):
        if line.startswith("spec-decode-exporter"):
            assert wrong_command(line) is None, line
        if re.match(r"curl (-\S+ )*localhost:7732/api", line):
            assert list(wrong_request(line)) == [], line


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (lambda: wrong_series('spec_decode_state{state="stuck"}'), "spec_decode_state{state=stuck}"),
        (lambda: wrong_command("spec-decode-exporter observe --untill 5m") is None, False),
        (lambda: list(wrong_request("curl localhost:7732/api/v1/events?kind=drop")), ["kind"]),
        (lambda: list(wrong_request("curl localhost:7732/api/v1/snapshot | jq '.engins[]'")), ["engins"]),
        (lambda: wrong_field("engines[].costs.source"), True),
        (lambda: alerts(["SpecDecodeSuddenDrop", "SpecDecodeDrop"]), {"SpecDecodeDrop"}),
        (lambda: list(wrong_links("[a](nowhere.md)", DOCS / "README.md")), ["nowhere.md"]),
        (lambda: list(wrong_links("[a](guide/plan.md#no)", DOCS / "README.md")), ["guide/plan.md#no"]),
    ],
)
def test_a_wrong_name_is_found(check, wrong):
    assert check() == wrong


def test_every_term_is_explained():
    words = {*State, *Verdict, *Action, *NAMES, *DropKind}
    assert [word for word in words if f"`{word}`" not in TEXTS["docs/explanation/semantics.md"]] == []


def test_every_figure_of_a_window_is_defined():
    defined = TEXTS["docs/explanation/semantics.md"]
    assert [figure.key for figure in FIGURES if f"`spec_decode_{figure.key}" not in defined] == []


@every(POWERS.keys() - {ANY})
def test_every_kind_of_drafter_is_in_the_table_with_its_methods_and_its_power(kind):
    (row,) = [
        row for row in TEXTS["docs/explanation/verdicts.md"].splitlines() if row.startswith(f"| {kind} |")
    ]
    _, methods, power = [cell.strip() for cell in row.strip("|").split("|")]
    assert {method for method in KINDS if KINDS[method] == kind} <= {*re.findall(r"\w+", methods)}
    assert float(power) == POWERS[kind]


def test_every_engine_kind_has_a_row_in_the_guide():
    _, _, rest = TEXTS["docs/guide/vllm.md"].partition("## Other engines and versions")
    rows = [line.split("|") for line in rest.partition("\n## ")[0].splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {len(rows[0])}, "each row has a cell for each column"
    missing = [kind.title for kind in ENGINES if not any(kind.title in row[1] for row in rows)]
    assert missing == [], "add rows to 'Other engines and versions' of docs/guide/vllm.md"


def test_every_file_and_name_in_it_that_the_guide_for_developers_gives_exists():
    """A path may leave out the folders above, such as that of the package."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )  # fmt: skip
    paths = [f"/{path}" for path in listed.stdout.splitlines() if (CHECKOUT / path).exists()]
    named = re.findall(r"`([\w./-]+\.(?:py|md|txt|yml))`", TEXTS["docs/maintainers/development.md"])
    assert len(named) > 10
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in paths)] == []
    package = CHECKOUT / "exporter" / "spec_decode_exporter"
    symbols = re.findall(r"`(\w+/\w+\.py)` `([\w.]+)`", TEXTS["docs/maintainers/development.md"])
    assert len(symbols) > 5
    assert [(file, name) for file, name in symbols if name not in (package / file).read_text("utf-8")] == []


def test_each_benchmark_that_a_document_quotes_is_there():
    quoted = set(re.findall(r"-m benchmarks\.([a-z_]+)", " ".join(TEXTS.values())))
    assert set() < quoted <= {*benchmarks.NAMES}
