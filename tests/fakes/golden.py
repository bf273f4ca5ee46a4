"""Golden files: texts that change only when somebody wants it; ``make generate`` writes them, and
``UPDATE_GOLDEN=1 make chart`` those of the chart."""

import os


def is_golden(path, found):
    """Compare a text with a golden file; write it if UPDATE_GOLDEN is set."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), (
        "read the difference; if it is wanted: make generate, or UPDATE_GOLDEN=1 make chart"
    )
