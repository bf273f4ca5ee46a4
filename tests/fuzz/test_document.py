from __future__ import annotations

import re
from pathlib import Path

from tests.fuzz.targets import TARGETS

RELIABILITY = Path(__file__).parents[2] / "docs/maintainers/reliability.md"


def test_the_document_has_every_parser_that_is_attacked():
    section = RELIABILITY.read_text().partition("\n## Fuzzing\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(TARGETS)
