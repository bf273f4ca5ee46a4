"""Every row of the table of untrusted inputs: the worst input within its bounds is read, one beyond is rejected."""

import re
from tempfile import gettempdir

import pytest
import yaml
from structlog.testing import capture_logs

from tests.paths import DATA
from tests.robustness.table import BY_NAME, TABLE

MAX_REASON = 500  # maximum characters of a line: the log and the page show a reason
MAX_REASONS = 101
"""Maximum lines: a configuration reports the first 100 mistakes and the number of the others."""

WORST = [(row.name, case) for row in TABLE for case in row.worst]
BEYOND = [(row.name, bound) for row in TABLE for bound in row.beyond]
REASONS = yaml.safe_load((DATA / "rejections.yml").read_text(encoding="utf-8"))
"""By row and bound: a rejection for another reason does not prove the bound."""
PLACE = re.compile(rf"{gettempdir()}/\w+/|(?<=127\.0\.0\.1):\d+")  # differs from run to run


def test_every_input_is_in_the_table_once():
    assert len(BY_NAME) == len(TABLE)


def test_every_reason_is_of_a_bound():
    assert [(name, bound) for name, bounds in REASONS.items() for bound in bounds] == BEYOND


def test_every_row_has_inputs_at_its_bounds():
    assert not [row.name for row in TABLE if not row.worst]


@pytest.mark.parametrize(("name", "case"), WORST)
async def test_the_worst_input_within_the_bounds_is_read(name, case):
    row = BY_NAME[name]
    await row.read(row.worst[case]())


@pytest.mark.parametrize(("name", "bound"), BEYOND)
async def test_an_input_beyond_a_bound_is_rejected_with_its_short_reason(name, bound):
    row = BY_NAME[name]
    with capture_logs() as logs, pytest.raises(row.rejects) as rejected:
        await row.read(row.beyond[bound]())
    reasons = str(rejected.value).split("\n")
    assert all(reasons)
    assert len(reasons) <= MAX_REASONS
    assert max(map(len, reasons)) <= MAX_REASON
    assert all(map(str.isprintable, reasons))
    assert PLACE.sub("", reasons[0]) == REASONS[name][bound]
    assert sum(log["log_level"] in {"warning", "error"} for log in logs) <= 1
