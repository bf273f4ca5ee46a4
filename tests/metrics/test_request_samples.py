"""Findings of single groups, models and users: together they are all of them."""

from __future__ import annotations

from spec_decode_exporter.metrics.catalogue import NAMES
from spec_decode_exporter.metrics.collector import SnapshotCollector
from spec_decode_exporter.metrics.request_samples import single_parts
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.requests.request_findings import RequestFindings
from tests.web.page.mixed_requests import mixed_requests


def series(found):
    """What a page says of the requests, by name and labels; what is about all of them left aside."""
    families = SnapshotCollector(lambda: Snapshot(requests=found), lambda: NAMES).collect()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if "model_name" in sample.labels
    }


async def test_the_parts_say_together_what_the_whole_says_and_nothing_twice():
    whole = await mixed_requests()
    parts = [series(part) for _, part in single_parts(whole)]
    assert sum(map(len, parts)) == len(series(whole)) > 100
    assert {key: value for part in parts for key, value in part.items()} == series(whole)


async def test_each_part_is_named():
    whole = await mixed_requests()
    names = [tuple(item.items()) for item, _ in single_parts(whole)]
    assert len(set(names)) == len(names)
    assert all(item["model_name"] for item, _ in single_parts(whole))
    assert list(single_parts(RequestFindings(enabled=True))) == []
