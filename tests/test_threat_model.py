"""docs/maintainers/threat-model.md names tests that there are, and every part of what it is to be about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
TEXT = (CHECKOUT / "docs" / "maintainers" / "threat-model.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[^`]+)`", TEXT))))
def test_the_test_behind_a_defence_is_there(named):
    path, _, name = named.partition("::")
    source = (CHECKOUT / path).read_text(encoding="utf-8")
    assert not name or re.search(rf"\bdef {name}\(", source), named


def test_every_row_of_a_table_names_a_test_or_its_absence():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.endswith("| tests |")]
    _, *defences = TEXT.split("## The port")
    checked = [row for row in rows if row in defences[0]]
    assert len(checked) > 25
    assert all("`tests/" in row or row.endswith("| \u2013 |") for row in checked)


def test_port_files_and_labels_each_have_a_part():
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert {"The port (7732)", "Request ingest", "The servers' pages", "Labels", "Files"} <= set(headings)


def test_the_documented_limits_are_those_of_the_code():
    from spec_decode_exporter.config.labels import (
        MAX_LABEL_CHARACTERS,
        MAX_LABEL_NAME,
        MAX_LABEL_VALUE,
        MAX_LABELS,
    )
    from spec_decode_exporter.discovery.label_limits import MAX_NAME_CHARACTERS
    from spec_decode_exporter.metrics.negotiation import MAX_CHARACTERS as MAX_HEADER_CHARACTERS
    from spec_decode_exporter.requests.request_batch import MAX_RECORD_CHARACTERS
    from spec_decode_exporter.requests.request_record import MAX_NAME_CHARACTERS as MAX_REQUEST_NAME
    from spec_decode_exporter.scrape.page.layout_map import (
        MAX_ENGINES,
        MAX_NAME,
        MAX_NAMES_TOTAL,
        MAX_POSITIONS,
        MAX_POSITIONS_TOTAL,
    )
    from spec_decode_exporter.web.api.queries import MAX_PARAMETERS
    from spec_decode_exporter.web.api.request_ingest import (
        BODY_SECONDS,
        MAX_BODIES,
        MAX_BODIES_PER_CLIENT,
        MAX_BODY_BYTES,
    )
    from spec_decode_exporter.web.metrics_page import MAX_RENDERED_BYTES
    from spec_decode_exporter.web.server.client_connection import MAX_HEAD_BYTES
    from spec_decode_exporter.web.server.concurrency_limit import (
        MAX_CONCURRENT,
        MAX_CONCURRENT_PER_CLIENT,
        MAX_SCRAPES,
        MAX_SCRAPES_PER_CLIENT,
        WAIT_SECONDS,
    )
    from spec_decode_exporter.web.server.connection_limiter import MAX_CONNECTIONS
    from spec_decode_exporter.web.server.streaming import SEND_SECONDS

    assert f"{MAX_ENGINES} engines a target, {MAX_POSITIONS} positions, names of {MAX_NAME:,} " in TEXT
    assert f"{MAX_POSITIONS_TOTAL:,} positions and {MAX_NAMES_TOTAL:,} characters of names together" in TEXT
    assert f"{MAX_LABEL_VALUE:,} printable characters per value, {MAX_LABEL_NAME} per name" in TEXT
    assert f"per name, {MAX_LABELS} labels per target" in TEXT
    assert f"| {MAX_LABELS} names of all targets together with {MAX_NAME_CHARACTERS:,} characters" in TEXT
    assert f"{MAX_LABEL_CHARACTERS:,} characters of discovered labels per target" in TEXT
    assert f"of {MAX_CONNECTIONS} the longest waiting one" in TEXT
    assert f"{MAX_CONCURRENT} at a time, {MAX_CONCURRENT_PER_CLIENT} per address" in TEXT
    assert f"{MAX_SCRAPES} at a time, {MAX_SCRAPES_PER_CLIENT} per address, the others" in TEXT
    assert f"wait {WAIT_SECONDS:.0f} s in a fair queue, then 503" in TEXT
    assert (
        f"have {MAX_RENDERED_BYTES // 2**20} MiB in total, the oldest is closed; {SEND_SECONDS:.0f} s in total"
        in TEXT
    )
    assert f"{MAX_HEAD_BYTES // 2**10} KiB of head, {MAX_HEADER_CHARACTERS:,} characters" in TEXT
    assert f"and {MAX_PARAMETERS} parameters are read" in TEXT
    assert (
        f"| {MAX_BODY_BYTES // 2**20} MiB, {BODY_SECONDS:.0f} s, {MAX_BODIES} at a time, {MAX_BODIES_PER_CLIENT} per"
        in TEXT
    )
    assert f"reads {MAX_RECORD_CHARACTERS // 2**10} KiB at a time" in TEXT
    assert f"names of {MAX_REQUEST_NAME} printable characters" in TEXT
