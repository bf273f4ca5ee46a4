from __future__ import annotations

from importlib.resources import files

from spec_decode_exporter.web.page import handlers


def test_the_style_sheet_is_made_of_every_part():
    parts = {
        each.name: each.read_text("utf-8")
        for each in (files("spec_decode_exporter.web.page") / "styles").iterdir()
    }
    assert set(parts) == {f"{part}.css" for part in handlers._STYLES}
    sheet = handlers._file("style.css")
    assert all(text in sheet for text in parts.values())
    assert sheet.index(parts["narrow.css"]) > max(
        sheet.index(parts[f"{part}.css"]) for part in handlers._STYLES[:-1]
    )
