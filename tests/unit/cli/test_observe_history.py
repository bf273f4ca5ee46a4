"""``observe --prometheus.url``: its times."""

import pytest

from spec_decode_exporter.cli import observe_history
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.core.user_errors import UsageError

NOW = 1_790_000_000


def test_too_short_a_time_is_refused():
    arguments = parse(["observe", "--prometheus.url", "http://p:9090", "--since", "5m"], {})
    with pytest.raises(UsageError, match="must be 10m to"):
        observe_history.query_of(arguments, NOW)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW - 7200),
        ("2026-09-21", 1_789_948_800),
        ("2026-09-21T01:00", 1_789_952_400),
        ("2026-09-21T01:00+01:00", 1_789_948_800),
    ],
)
def test_a_time_is_an_age_or_a_date(text, moment):
    assert observe_history.moment(text, "--since", NOW) == moment
    with pytest.raises(UsageError, match="write how long ago, such as 7d"):
        observe_history.moment("yesterday", "--since", NOW)
