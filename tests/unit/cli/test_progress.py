import io

import pytest

from spec_decode_exporter.cli.observe import progress_words
from spec_decode_exporter.cli.observe_history import ERASE_LINE, ProgressBar
from tests.fakes.references import observation
from tests.unit.reports.test_text import Terminal


@pytest.mark.parametrize(
    ("err", "environ", "is_shown"),
    [(Terminal(), {}, True), (Terminal(), {"TERM": "dumb"}, False), (io.StringIO(), {}, False)],
)
def test_progress_is_one_line_on_a_terminal_that_is_erased_at_the_end(err, environ, is_shown):
    bar = ProgressBar(err, environ)
    bar.show(0.4, "12 of 30s")
    bar.end()
    assert err.getvalue().startswith(ERASE_LINE) is is_shown
    assert err.getvalue().endswith(ERASE_LINE) is is_shown
    assert "\n" not in err.getvalue()


def test_progress_has_the_time_and_the_drafts():
    words = progress_words(observation("steady", None, seconds=12), 600.0)
    assert words.startswith("12 s of 10m  ")
    assert " drafts" in words
