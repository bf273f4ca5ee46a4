"""Split of request findings into groups, models and users."""

from __future__ import annotations

from spec_decode_exporter.metrics.split_findings import single_parts
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.requests.request_findings import RequestFindings
from tests.unit.metrics.written_page import families_of
from tests.web.page.mixed_requests import mixed_requests


def series(found):
    """Return the samples of groups, models and users by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families_of(Snapshot(requests=found))
        for sample in family.samples
        if "model_name" in sample.labels
    }


async def test_the_parts_have_all_samples_of_the_whole_and_none_twice():
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
