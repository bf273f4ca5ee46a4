"""A real drop: requests at temperature 0, then at one at which few drafts are accepted, then at 0 again."""

from __future__ import annotations

import time

from clients import Api, Load, driving
from pytest import approx  # noqa: PT013 - the one name that is read like a word
from watch import Watch

from tests.e2e.conftest import CEILING, eventually

DROPPED = "spec_decode_acceptance_dropped"
BASELINE = "spec_decode_baseline_acceptance_length_tokens"
SOON = 30.0
"""Seconds from the first worse request within which the exporter reports a drop, on a machine that does other things too."""


def drop_and_recovery(watching: Watch, url: str, api: Api, *, worse: float) -> str:
    """Cause a drop by the temperature ``worse``, and end it; return a line about both delays."""
    with driving(url, Load(temperature=0, seconds=CEILING, api=api)):
        eventually(lambda: watching.shows({BASELINE: {}}), what=f"a baseline; see {watching.log_path}")
        page = watching.settled(polls=20)
    baseline = page.sum(BASELINE)
    assert page.sum("spec_decode_acceptance_length_tokens", window="30s") == approx(baseline, rel=0.1)
    assert {sample.value for sample in page.find(DROPPED)} == {0}

    flagged = _seconds_until(1, watching, url, Load(temperature=worse, seconds=CEILING, api=api))
    assert watching.page().sum(BASELINE) == approx(baseline, rel=0.1)
    assert flagged < SOON

    cleared = _seconds_until(0, watching, url, Load(temperature=0, seconds=CEILING, api=api))
    page = watching.page()
    assert page.sum("spec_decode_acceptance_drops_total", kind="sudden") == 1
    interval = page.sum("spec_decode_exporter_poll_interval_seconds")
    return (
        f"a poll every {interval:.1f} s; temperature 0 to {worse}: flagged after {flagged:.1f} s;"
        f" back to 0: cleared after {cleared:.1f} s"
    )


def _seconds_until(dropped: int, watching: Watch, url: str, load: Load) -> float:
    """Return the delay from the first request to the exporter's report, which remains for ten polls."""
    began = time.monotonic()
    with driving(url, load):
        eventually(
            lambda: watching.page().sum(DROPPED, kind="sudden") == dropped,
            what=f"{DROPPED} {dropped}; see {watching.log_path}",
        )
        seconds = time.monotonic() - began
        assert watching.settled(polls=10).sum(DROPPED, kind="sudden") == dropped
    return seconds
