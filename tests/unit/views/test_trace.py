"""The line of the page: acceptance of the last minutes."""

import pytest

from spec_decode_exporter.views.trace import TRACE_PIECES, acceptance_trace
from spec_decode_exporter.window.engine_windows import History
from tests.conftest import make_sample

OFFSET = 1_790_000_000.25


def trace(skipped=(), interval=1):
    """The line at the 400th second, of polls at an interval but for the ``skipped`` seconds.

    Two tokens are drafted in a second, of which one is accepted.
    """
    history = History(300.0)
    for second in range(0, 401, interval):
        rates = {"generation_tokens": 5 * second, "first_tokens": second, "decode_steps": 2 * second}
        sample = make_sample(second, 2 * second, second, positions=(second,), running_requests=4.0, **rates)
        if second not in skipped:
            history.observe(sample, 1000.0 + second, OFFSET + second, 1.0)
    return acceptance_trace(history.windows(300.0)[0], 1400.0)


def test_five_minutes_are_sixty_pieces_and_the_one_that_begins_and_those_without_polls_are_unknown():
    seconds, ages, ratios = trace(skipped=range(300, 330))
    assert (seconds, len(ages), len(ratios)) == (300, TRACE_PIECES + 1, TRACE_PIECES + 1)
    assert list(ages) == sorted(ages, reverse=True)
    assert set(ratios) == {0.5, None}
    unknown = [age for age, ratio in zip(ages, ratios, strict=True) if ratio is None and age > 1]
    assert unknown == pytest.approx([97.5, 92.5, 87.5, 82.5, 77.5, 72.5])


@pytest.mark.parametrize(("interval", "pieces"), [(2, 60), (5, 30), (10, 20), (40, 5)])
def test_rare_polls_make_fewer_pieces_and_no_gaps(interval, pieces):
    _, ages, ratios = trace(interval=interval)
    assert len(ages) == pieces + 1
    assert set(ratios[1:-1]) == {0.5}
