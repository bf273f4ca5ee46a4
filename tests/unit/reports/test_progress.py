import io

import pytest

from spec_decode_exporter.reports.progress import ERASE_LINE, ProgressBar


class Pipe(io.StringIO):
    encoding = "utf-8"


class Terminal(Pipe):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("err", "environ", "is_shown"),
    [(Terminal(), {}, True), (Terminal(), {"TERM": "dumb"}, False), (Pipe(), {}, False)],
)
def test_progress_is_one_line_on_a_terminal_that_is_erased_at_the_end(err, environ, is_shown):
    bar = ProgressBar(err, environ)
    bar.show(0.4, "12 of 30s")
    bar.end()
    assert err.getvalue().startswith(ERASE_LINE) is is_shown
    assert err.getvalue().endswith(ERASE_LINE) is is_shown
    assert "\n" not in err.getvalue()
    bar.warn("no answer")
    assert err.getvalue().endswith("spec-decode-exporter: no answer\n")
