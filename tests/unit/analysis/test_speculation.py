"""Speculation and its sources."""

from __future__ import annotations

import pytest

from spec_decode_exporter.analysis.speculation import Speculation, resolve
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.cost_settings import SpeculativeSettings
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation

SERVED = ServedSpeculation("eagle3", 4, "served/draft")


def test_without_a_source_all_is_unknown():
    assert resolve(None, "", None) == Speculation("", "", "", None)


@pytest.mark.parametrize(
    ("method", "label", "served", "expected"),
    [
        ("mtp", "suffix", SERVED, ("mtp", "configured")),
        (None, "suffix", SERVED, ("suffix", "label")),
        (None, "", SERVED, ("eagle3", "server_info")),
        (None, "", ServedSpeculation(tokens=3), ("", "")),
        (None, "", None, ("", "")),
    ],
)
def test_the_method_has_the_most_certain_source(method, label, served, expected):
    speculation = resolve(SpeculativeSettings(method=method), label, served)
    assert (speculation.method, speculation.source) == expected


def test_each_field_has_its_own_source():
    speculation = resolve(SpeculativeSettings(tokens=6), "mtp", SERVED)
    assert speculation == Speculation("mtp", "label", "served/draft", 6)
    speculation = resolve(SpeculativeSettings(draft_model="mine"), "", SERVED)
    assert speculation == Speculation("eagle3", "server_info", "mine", 4)


def test_expected_positions_are_configured():
    assert resolve(SpeculativeSettings(expected_positions=(0.9, 0.8)), "", None).expected_positions == (
        0.9,
        0.8,
    )
    assert resolve(None, "", SERVED).expected_positions == ()


def test_the_rejection_method_is_configured_or_of_the_pod_or_of_the_server():
    pod, served = ServedSpeculation(rejection_method="block"), ServedSpeculation(rejection_method="fly")
    assert resolve(None, "", served).rejection_method == "fly"
    assert resolve(None, "", served, pod).rejection_method == "block"
    assert (
        resolve(SpeculativeSettings(rejection_method="standard"), "", served, pod).rejection_method
        == "standard"
    )


def test_pod_arguments_precede_server_info_and_follow_the_label():
    pod = ServedSpeculation("mtp", 2, "pod/draft", BatchSchedule((1, 9), (2, 0)))
    assert resolve(None, "", SERVED, pod) == Speculation(
        "mtp", "pod_arguments", "pod/draft", 2, BatchSchedule((1, 9), (2, 0))
    )
    assert resolve(None, "suffix", SERVED, pod).source == "label"
    assert resolve(None, "", SERVED, ServedSpeculation(tokens=2)) == Speculation(
        "eagle3", "server_info", "served/draft", 2
    )


@pytest.mark.parametrize(
    ("running", "off"),
    [(1, False), (16, False), (16.1, True), (17, True), (500, True), (0, False), (None, False)],
)
def test_drafting_is_scheduled_off_from_the_batch_size_of_the_schedule(running, off):
    served = ServedSpeculation("mtp", 4, schedule=BatchSchedule((1, 17), (4, 0)))
    assert resolve(None, "", served).scheduled_off(running) is off


def test_the_configured_schedule_counts_before_that_of_a_server():
    served = ServedSpeculation("mtp", 4, schedule=BatchSchedule((1, 17), (4, 0)))
    configured = SpeculativeSettings(schedule=((1, 7, 4), (8, 64, 0)))
    assert resolve(configured, "", served).schedule == BatchSchedule((1, 8), (4, 0))
    assert resolve(SpeculativeSettings(method="mtp"), "", served).schedule == BatchSchedule((1, 17), (4, 0))


def test_without_a_schedule_nothing_is_scheduled_off():
    assert not Speculation("mtp", tokens=4).scheduled_off(1000)
