"""docs/threat-model.md names tests that there are, and every part of what it is to be about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
TEXT = (CHECKOUT / "docs" / "threat-model.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[^`]+)`", TEXT))))
def test_the_test_behind_a_defence_is_there(named):
    path, _, name = named.partition("::")
    source = (CHECKOUT / path).read_text(encoding="utf-8")
    assert not name or re.search(rf"\bdef {name}\(", source), named


def test_every_row_of_a_table_has_a_test_or_says_that_there_is_none():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and "tested by" not in line]
    _, *defences = TEXT.split("## The port")
    checked = [row for row in rows if row in defences[0]]
    assert len(checked) > 25
    assert all("`tests/" in row or row.endswith("| \u2013 |") for row in checked)


def test_port_files_and_labels_each_have_a_part():
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert {"The port (7732)", "Requests that are sent", "The servers' pages", "Labels", "Files"} <= set(
        headings
    )


def test_the_bounds_that_it_names_are_those_of_the_code():
    from spec_decode_exporter.config.labels import (
        MOST_LABEL_CHARACTERS,
        MOST_LABEL_NAME,
        MOST_LABEL_VALUE,
        MOST_LABELS,
    )
    from spec_decode_exporter.discovery.label_limits import CHARACTERS_OF_NAMES
    from spec_decode_exporter.metrics.negotiation import MAX_CHARACTERS as MOST_OF_A_HEADER
    from spec_decode_exporter.requests.request_batch import MAX_RECORD_CHARACTERS
    from spec_decode_exporter.requests.request_record import MAX_NAME_CHARACTERS as MOST_REQUEST_NAME
    from spec_decode_exporter.scrape.page.layout_map import (
        MOST_ENGINES,
        MOST_NAME,
        MOST_NAMES_TOGETHER,
        MOST_POSITIONS,
        MOST_POSITIONS_TOGETHER,
    )
    from spec_decode_exporter.web.api.queries import MOST_PARAMETERS
    from spec_decode_exporter.web.api.request_ingest import (
        _BODY_SECONDS,
        MOST_BODIES,
        MOST_BODIES_PER_CLIENT,
        MOST_BODY,
    )
    from spec_decode_exporter.web.metrics_page import MOST_BYTES, SEND_SECONDS
    from spec_decode_exporter.web.server.client_connection import MOST_HEAD
    from spec_decode_exporter.web.server.concurrency_limit import (
        MOST,
        MOST_PER_CLIENT,
        MOST_SCRAPES,
        MOST_SCRAPES_PER_CLIENT,
        WAIT_SECONDS,
    )
    from spec_decode_exporter.web.server.connection_limiter import MOST_CONNECTIONS

    assert f"{MOST_ENGINES} engines a target, {MOST_POSITIONS} positions, names of {MOST_NAME:,} " in TEXT
    assert (
        f"{MOST_POSITIONS_TOGETHER:,} positions and {MOST_NAMES_TOGETHER:,} characters of names together"
        in TEXT
    )
    assert f"{MOST_LABEL_VALUE:,} printable characters a value, {MOST_LABEL_NAME} a name" in TEXT
    assert f"a name, {MOST_LABELS} labels a target" in TEXT
    assert f"| {MOST_LABELS} names of all targets together, of {CHARACTERS_OF_NAMES:,} characters" in TEXT
    assert f"gives to a target have {MOST_LABEL_CHARACTERS:,} characters together" in TEXT
    assert f"of {MOST_CONNECTIONS} the one that waits longest" in TEXT
    assert f"{MOST} at a time, {MOST_PER_CLIENT} of one address" in TEXT
    assert f"{MOST_SCRAPES} at a time, {MOST_SCRAPES_PER_CLIENT} of one address, the others" in TEXT
    assert f"wait in a fair queue for {WAIT_SECONDS:.0f} s, then 503" in TEXT
    assert f"have {MOST_BYTES // 2**20} MiB in total, the oldest ends; {SEND_SECONDS:.0f} s for" in TEXT
    assert f"{MOST_HEAD // 2**10} KiB of head, {MOST_OF_A_HEADER:,} characters" in TEXT
    assert f"and {MOST_PARAMETERS} parameters are read" in TEXT
    assert (
        f"| {MOST_BODY // 2**20} MiB, {_BODY_SECONDS:.0f} s, {MOST_BODIES} at a time, {MOST_BODIES_PER_CLIENT} of one"
        in TEXT
    )
    assert f"sees {MAX_RECORD_CHARACTERS // 2**10} KiB at a time" in TEXT
    assert f"names of {MOST_REQUEST_NAME} characters that can be printed" in TEXT
