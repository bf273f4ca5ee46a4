from __future__ import annotations

import sys

from spec_decode_exporter.cli.event_loop import run_loop


def test_the_program_does_not_run_inside_the_handling_of_a_missing_uvloop(monkeypatch):
    monkeypatch.setattr("spec_decode_exporter.cli.event_loop.find_spec", lambda name: None)

    async def being_handled():
        return sys.exc_info()[1]

    assert run_loop(being_handled()) is None
