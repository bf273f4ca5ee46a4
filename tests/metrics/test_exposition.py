from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import exposition as library_text
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition as library_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from structlog.testing import capture_logs

from spec_decode_exporter.metrics.exposition import SLICE, Exposition
from spec_decode_exporter.metrics.negotiation import Format

WRITERS = {
    Format.TEXT_0_0_4: library_text.generate_latest,
    Format.TEXT_1_0_0: library_text.generate_latest,
    Format.OPENMETRICS_1_0_0: library_openmetrics.generate_latest,
}
PARSERS = {
    Format.TEXT_0_0_4: parse_text,
    Format.TEXT_1_0_0: parse_text,
    Format.OPENMETRICS_1_0_0: parse_openmetrics,
}


class Given:
    """A collector of given families; an exception among them is raised at its place."""

    def __init__(self, *families):
        self.families = families

    def collect(self):
        for family in self.families:
            if isinstance(family, Exception):
                raise family
            yield family


def gauge(name="g", samples=1, value=0.5):
    family = GaugeMetricFamily(name, "Some gauge.", labels=["target"])
    for number in range(samples):
        family.add_metric([f"vllm-{number}"], value)
    return family


def every_kind(label='a "quoted" \\ name\nof two lines'):
    counter = CounterMetricFamily("c", "Counts.\nTwo lines.", labels=["model_name"])
    counter.add_metric([label], 3)
    histogram = HistogramMetricFamily("h", "Spreads.", labels=["model_name"])
    histogram.add_metric([label], buckets=[("0.1", 1), ("1.0", 2), ("+Inf", 2)], sum_value=0.9)
    info = InfoMetricFamily("i", "Says.", labels=["model_name"])
    info.add_metric([label], {"version": "1.2"})
    return [counter, gauge(), histogram, info]


async def rendered(exposition, format_=Format.TEXT_0_0_4):
    return [piece async for piece in exposition.render(format_)]


async def page(collectors, format_=Format.TEXT_0_0_4):
    return b"".join(await rendered(Exposition(collectors), format_)).decode()


def samples(text, format_):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in PARSERS[format_](text)
        for sample in family.samples
    }


@pytest.mark.parametrize("format_", Format)
@pytest.mark.parametrize("count", [0, 1, SLICE - 1, SLICE, SLICE + 1, 3 * SLICE, 3 * SLICE + 7])
async def test_a_page_in_slices_equals_the_page_written_at_once(format_, count):
    families = [*every_kind(), gauge("big", count)]
    assert await page([Given(*families)], format_) == WRITERS[format_](Given(*families)).decode()


@pytest.mark.parametrize("format_", Format)
async def test_the_library_reads_back_what_was_served(format_):
    label = 'a "quoted" \\ name\nof two lines'
    read = samples(await page([Given(*every_kind(label), gauge("big", 300, 0.1))], format_), format_)
    assert read["c_total", ("model_name", label)] == 3
    assert read["h_bucket", ("le", "0.1"), ("model_name", label)] == 1
    assert read["i_info", ("model_name", label), ("version", "1.2")] == 1
    assert sum(name == "big" for name, *_ in read) == 300


@pytest.mark.parametrize("format_", Format)
@given(
    label=st.text(st.characters(exclude_categories=["Cs"])),
    value=st.floats(allow_nan=False),
)
def test_any_label_and_any_value_is_escaped_and_read_back(format_, label, value):
    family = GaugeMetricFamily("g", label, labels=["model_name"])
    family.add_metric([label], value)
    text = asyncio.run(page([Given(family)], format_))
    assert samples(text, format_) == {("g", ("model_name", label)): value}


async def test_a_family_is_introduced_once_however_many_slices_it_takes():
    text = await page([Given(gauge("big", 5 * SLICE))], Format.OPENMETRICS_1_0_0)
    assert text.count("# HELP") == text.count("# TYPE") == text.count("# EOF") == 1
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize("format_", Format)
async def test_the_creation_time_is_omitted(format_):
    counter = CounterMetricFamily("c", "Counts.", labels=["target"])
    counter.add_metric(["a"], 3, created=1e9)
    text = await page([Given(counter)], format_)
    assert "_created" not in text
    assert 'c_total{target="a"} 3.0' in text


async def test_a_failing_collector_omits_its_own_families_only():
    collectors = [
        Given(gauge("first")),
        Given(gauge("before"), ValueError("no"), gauge("after")),
        Given(gauge("last")),
    ]
    with capture_logs():
        text = await page(collectors)
    assert [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")] == [
        "first",
        "before",
        "last",
    ]


@pytest.mark.parametrize("format_", Format)
async def test_a_family_that_cannot_be_written_is_omitted_as_a_whole(format_):
    bad = gauge("bad", 3 * SLICE)
    bad.add_metric([object()], 1.0)
    with capture_logs():
        text = await page([Given(gauge("first"), bad, gauge("last"))], format_)
    assert set(samples(text, format_)) == {("first", ("target", "vllm-0")), ("last", ("target", "vllm-0"))}


async def test_a_lasting_failure_is_logged_once_and_again_when_it_comes_back():
    failing = Given(ValueError("no"))
    exposition = Exposition([failing, Given(Metric("odd", "Odd.", "gauge"))])
    with capture_logs() as logs:
        await rendered(exposition)
        await rendered(exposition)
        failing.families = ()
        await rendered(exposition)
        failing.families = (ValueError("again"),)
        await rendered(exposition)
    assert [(log["event"], log["source"], str(log["exc_info"])) for log in logs] == [
        ("metrics_left_out", "Given 1", "no"),
        ("metrics_left_out", "Given 1", "again"),
    ]


async def test_other_tasks_run_while_a_large_page_is_rendered():
    turns = 0

    async def poll():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    polling = asyncio.create_task(poll())
    await rendered(Exposition([Given(gauge("big", 100 * SLICE))]))
    polling.cancel()
    assert turns >= 100


async def test_many_small_families_share_a_cooperative_yield():
    turns = 0

    async def poll():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    polling = asyncio.create_task(poll())
    await rendered(Exposition([Given(*(gauge(f"g{number}") for number in range(70)))]))
    polling.cancel()
    assert turns <= 4
