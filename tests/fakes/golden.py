"""Golden files: texts that change only when somebody wants it; ``make generate`` writes them, and
``UPDATE_GOLDEN=1 make chart`` those of the chart."""

import os
import sys

HAS_OTHER_SUMS = sys.version_info >= (3, 12)
"""From Python 3.12, sum() of floats rounds less: the last digits of some numbers are others."""


def rounded(line):
    """Return a line of a metrics page with 8 digits of its value."""
    series, _, value = line.rpartition(" ")
    return line if line.startswith("#") else f"{series} {float(value):.8g}"


def is_golden_page(path, found):
    """Compare a metrics page with a golden file, up to the rounding of sums."""
    if HAS_OTHER_SUMS and not os.environ.get("UPDATE_GOLDEN"):
        expected = path.read_text(encoding="utf-8")
        assert [*map(rounded, found.splitlines())] == [*map(rounded, expected.splitlines())]
    else:
        is_golden(path, found)


def is_golden(path, found):
    """Compare a text with a golden file; write it if UPDATE_GOLDEN is set."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), (
        "read the difference; if it is wanted: make generate, or UPDATE_GOLDEN=1 make chart"
    )
