"""Every engine kind that the exporter reads has a row in docs/guide/vllm.md."""

from __future__ import annotations

from spec_decode_exporter.scrape.engines import ENGINES
from tests.every import every

from .documents import DOCS

_TEXT = (DOCS / "guide/vllm.md").read_text(encoding="utf-8")
_TABLE = _TEXT.partition("## Other engines and versions")[2].partition("\n## ")[0]
ROWS = [line.split("|")[1] for line in _TABLE.splitlines() if line.startswith("|")]


@every([kind.title for kind in ENGINES])
def test_an_engine_kind_has_a_row_in_the_table_of_engines(title):
    assert any(title in row for row in ROWS), (
        f"add a row with the name {title!r} to 'Other engines and versions' of docs/guide/vllm.md"
    )
