"""The page: its bytes, its metrics by configuration, and what one bad number or row takes from it."""

import asyncio
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, nan
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client import Metric as Family
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.openmetrics.exposition import generate_latest as write_open
from structlog.testing import capture_logs

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.config.schema import Group, Metrics, Profile
from spec_decode_exporter.metrics import page as module
from spec_decode_exporter.metrics.metric import Metric
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.page import PIECE_CHARACTERS, MetricsPage, number_text, selected_metrics
from spec_decode_exporter.metrics.subject import ENGINE, Subject
from spec_decode_exporter.metrics.table import METRICS
from spec_decode_exporter.monitor.snapshot import ExporterStatus, Snapshot, TargetStatus
from spec_decode_exporter.scrape.poll_record import PollRecord
from tests.every import every
from tests.fakes.arms import labelled_arms
from tests.fakes.engines import recorded_engine
from tests.fakes.golden import is_golden_page
from tests.paths import DATA
from tests.unit.metrics.test_request_metrics import FOUND
from tests.unit.metrics.written_page import EVERYTHING, families_of, page_of

WALL = 1_795_225_677.0
LABELS = {"target": "one", "model_name": "m", "engine": "0"}
EXPORTER = ExporterStatus("1.2.3", "abc", "3.11.9", {"static": 1, "file": 1}, "", WALL, 4711)
STATUS = TargetStatus(
    PollRecord(
        up=True,
        page="filtered",
        version="0.32.0",
        polls=21,
        failures=Counter(refused=1),
        seconds=0.0021,
        size=2048,
        interval=1.0,
        last_success=WALL + 24.022,
    ),
    engine_kind="vllm",
    front_end="python",
)


@dataclass
class One:
    """A registry of given families; an exception is raised in its place."""

    families: list

    def collect(self):
        for family in self.families:
            if isinstance(family, Exception):
                raise family
            yield family


@contextmanager
def table(*metrics):
    with patch.object(module, "METRICS", metrics):
        selected_metrics.cache_clear()
        yield
    selected_metrics.cache_clear()


NAMES = ("action", "arm", "engine", "kind", "model_name", "position", "target", "window", "zone")
TEXTS = st.text(max_size=6) | st.sampled_from(['"', "\\", "\n", "a\\nb", "{}", "%s", "100 %", "\x00"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**62), 2**62)
FORMATS = {Format.TEXT_0_0_4: write_text, Format.TEXT_1_0_0: write_text, Format.OPENMETRICS_1_0_0: write_open}


class TestBytes:
    """They are those of prometheus_client."""

    views = Subject((), lambda views: views)

    @settings(max_examples=150)
    @given(st.data(), st.sampled_from(["gauge", "counter"]), st.sampled_from([Format(0), Format(2)]))
    def test_of_a_family_with_labels_in_any_order_and_any_texts_and_numbers(self, data, kind, format_):
        names = data.draw(st.lists(st.sampled_from(NAMES), unique=True))
        own, carried = names[: len(names) // 2], names[len(names) // 2 :]
        rows = st.tuples(st.tuples(*(TEXTS for _ in own)), st.none() | NUMBERS)
        values = data.draw(st.lists(rows, max_size=4 if own else 1))
        labels = st.fixed_dictionaries(dict.fromkeys(carried, TEXTS))
        views = data.draw(st.lists(labels, min_size=1, max_size=3))
        name = "spec_decode_x_total" if kind == "counter" else "spec_decode_x"
        family = Family("spec_decode_x", "Of drafts.", kind)
        for view in views:
            for own_values, number in values:
                if number is not None:
                    family.add_sample(name, {**view, **dict(zip(own, own_values, strict=True))}, number)
        expected = FORMATS[format_](One([family] if family.samples else []), escaping=ALLOWUTF8).decode()
        read = (lambda values: values) if own else (lambda values: values[0][1] if values else None)
        labels = {"labels": tuple(own), "kind": kind, "subject": self.views}
        metric = Metric(Group.PAY, Profile.MINIMAL, name, "Of drafts.", read, **labels)
        with table(metric):
            page = MetricsPage(Metrics).text([(view, values) for view in views], format_)
        assert page == expected

    @given(NUMBERS | st.sampled_from([10**17, -0.0, 999_999.0, 1e6, 1e15, 1e16, 5e-324, 1.7e308]))
    def test_of_a_number(self, number):
        family = Family("x", "", "gauge")
        family.add_sample("x", {}, number)
        assert write_text(One([family])).decode().endswith(f"\nx {number_text(number)}\n")

    @pytest.mark.parametrize("format_", [Format.TEXT_1_0_0, Format.OPENMETRICS_1_0_0])
    def test_of_the_process(self, format_):
        registry = CollectorRegistry()
        registry.register(PLATFORM_COLLECTOR)
        with table():
            page = MetricsPage(Metrics, collectors=(PLATFORM_COLLECTOR,)).text(Snapshot(), format_)
            process = MetricsPage(Metrics, collectors=(PROCESS_COLLECTOR,)).text(Snapshot(), format_)
        assert page == FORMATS[format_](registry, escaping=ALLOWUTF8).decode()
        assert "# TYPE process_cpu_seconds" in process
        assert "_created" not in process


@pytest.fixture(name="recorded", scope="module")
def recorded_fixture():
    """Snapshot after the first 25 s of a recorded trace, of one target of two."""
    engine = {"target": "one", "model_name": "tiny-llama", "engine": "0", "team": "a", "zone": ""}
    targets = [
        ({"target": "one", "team": "a", "zone": ""}, STATUS),
        ({"target": 'tw"o', "team": "", "zone": "b"}, TargetStatus()),
    ]
    return Snapshot([(engine, recorded_engine())], targets, [({}, EXPORTER)])


@pytest.mark.parametrize("profile", Profile)
async def test_the_page_of_a_recorded_trace_is_the_golden_one(recorded, profile):
    """After a wanted change: ``make generate``, then read the difference."""
    text = await page_of(recorded, Metrics(profile=profile))
    is_golden_page(DATA / "metrics" / f"restart_k3_k5.{profile}.txt", text)


@every(Group)
def test_a_disabled_group_is_not_selected(group):
    kept = [metric for metric, _ in selected_metrics(Metrics()) if metric.group is not group]
    assert [metric for metric, _ in selected_metrics(Metrics(disable=(str(group),)))] == kept


@every(Profile)
def test_an_enabled_group_is_selected_with_all_windows(profile):
    selected = dict(selected_metrics(Metrics(profile=profile, enable=("distribution",))))
    own = [metric for metric in METRICS if metric.group is Group.DISTRIBUTION]
    assert len(own) == 4
    assert [selected[metric] for metric in own] == [metric.windows for metric in own]


OTHER_LABELS = [(("x",) * 9, 1.0)]
BAD = {
    "nan": nan,
    "infinity": inf,
    "minus infinity": -inf,
    "more than a float": 10**400,
    "labels that are not its own": OTHER_LABELS,
    "exception": ZeroDivisionError("no"),
}


@dataclass(eq=False)
class BrokenRow:
    """Reads a metric, with a number or an exception in place of each number of one subject."""

    metric: Metric
    view: object
    bad: object

    def read(self, part):
        metric, bad = self.metric, self.bad
        parts = [self.view]
        if metric.windows:
            parts += [each for _, each in metric.subject.parts(self.view)]
        if part not in parts:
            return metric.read(part)
        if isinstance(bad, Exception):
            raise bad
        if bad is OTHER_LABELS:
            return bad
        own = ("_bucket", "1.0") if metric.kind == "histogram" else ("x",) * len(metric.labels)
        return [(own, bad)] if own else bad


def series(page):
    found = {}
    for line in page.splitlines():
        if not line.startswith("#"):
            found.setdefault(re.split("[ {]", line)[0], set()).add(line)
    return found


def without(good, metric, labels):
    """Return the series without those of a metric that have some labels, written as on the page."""
    own, kept = {f'{name}="{value}"' for name, value in labels.items()}, dict(good)
    for name in (metric.name, *(f"{metric.name}{suffix}" for suffix in ("_bucket", "_sum", "_count"))):
        lines = {line for line in kept.pop(name, ()) if not own <= set(re.findall(r'\w+="[^"]*"', line))}
        kept |= {name: lines} if lines else {}
    return kept


class TestOneBadNumber:
    @pytest.mark.parametrize("place", range(6))
    @pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
    def test_of_any_row_takes_its_family_of_one_subject_and_is_logged_once(self, busy, bad, place):
        """Every sixth row has one, and the rows between are as they were."""
        windows = [each.window for each in busy.evaluation.windows]
        unknown = replace(busy, evaluation=Evaluation(windows, Knowledge()))
        other = replace(STATUS, record=replace(STATUS.record, polls=7))
        # Two subjects of each kind, as far as there can be two.
        fleet = Snapshot(
            [(LABELS, busy), (LABELS | {"engine": "1"}, unknown)],
            [({"target": "one"}, STATUS), ({"target": "two"}, other)],
            [({}, EXPORTER)],
            labelled_arms(busy),
            requests=FOUND,
        )
        expected, page = series(MetricsPage(lambda: EVERYTHING).text(fleet)), MetricsPage(lambda: EVERYTHING)
        rows = list(METRICS)
        for number, metric in list(enumerate(METRICS))[place::6]:
            labels, view = next(iter(metric.subject.views(fleet)))
            rows[number] = replace(metric, read=BrokenRow(metric, view, bad).read)
            expected = without(expected, metric, labels)
        with table(*rows), capture_logs() as logs:
            texts = [page.text(fleet) for _ in range(2)]
        assert series(texts[0]) == series(texts[1]) == expected
        failed = sorted(metric.name for metric in METRICS[place::6])
        assert sorted(log["part"] for log in logs if log["event"] == "internal_error") == failed

    def test_a_subject_with_other_labels_than_the_first_is_omitted_alone(self, busy):
        others = ({"zone": "a"}, {"engine": "2"}, {"engine": None})
        snapshot = Snapshot([(LABELS, busy), *((LABELS | other, busy) for other in others)])
        with capture_logs() as logs:
            families = families_of(snapshot)
        engines = {sample.labels["engine"] for family in families for sample in family.samples}
        assert engines == {"0", "2"}
        assert [(log["event"], log["part"]) for log in logs] == [("internal_error", "metrics")] * 2

    def test_a_family_of_the_process_is_omitted_alone_and_logged_once(self):
        bad, good = GaugeMetricFamily("bad", "Bad.", value=nan), GaugeMetricFamily("good", "Good.", value=1)
        page = MetricsPage(Metrics, collectors=(One([good, bad, good]), One([ValueError("no")]), One([good])))
        with table(), capture_logs() as logs:
            texts = [page.text(Snapshot()) for _ in range(2)]
        assert texts == [3 * "# HELP good Good.\n# TYPE good gauge\ngood 1.0\n"] * 2
        assert [(log["event"], log["part"]) for log in logs] == [
            ("internal_error", "bad"),
            ("internal_error", "metrics"),
        ]


class TestPreparedLines:
    """Lines are written with the evaluation where pages are read as often; a page joins them."""

    PACE = 15.0

    async def page(self, *moments, settings=lambda: EVERYTHING):
        now = [0.0]
        page = MetricsPage(settings, now=lambda: now[0])
        for now[0] in moments:
            _ = [piece async for piece in page.render(Snapshot(), Format(0))]
        return page

    @pytest.mark.parametrize("format_", [Format.TEXT_0_0_4, Format.OPENMETRICS_1_0_0])
    async def test_the_page_is_the_same(self, busy, format_):
        page, snapshot = await self.page(0.0, 15.0), Snapshot([(LABELS, busy)])
        expected = page.text(snapshot, format_)
        engine = replace(busy, lines={})
        page.prepare(LABELS, engine, self.PACE)
        of_engines = [metric for metric in METRICS if metric.subject is ENGINE]
        evaluated = {metric.name for metric in of_engines if metric.group is not Group.COUNTERS}
        [(rows, lines)] = engine.lines.values()
        assert ({metric.name for metric, _ in rows}, len(lines)) == (evaluated, len(evaluated))
        assert page.text(Snapshot([(LABELS, engine)]), format_) == expected

    async def test_lines_are_joined_and_sums_are_of_the_newest_poll(self, busy):
        page, engine = await self.page(0.0, 15.0), replace(busy, lines={})
        page.prepare(LABELS, engine, self.PACE)
        later = replace(
            engine,
            tokens=99,
            totals=replace(engine.totals, counters=engine.totals.counters._replace(drafts=1)),
        )
        before, after = (page.text(Snapshot([(LABELS, each)])) for each in (engine, later))
        changed = {line.split("{")[0] for line in set(after.splitlines()) - set(before.splitlines())}
        assert changed == {"spec_decode_drafts_total"}

    async def test_engines_that_are_not_prepared_stand_between_others(self, busy):
        page, engines = await self.page(0.0, 15.0), [replace(busy, lines={}) for _ in range(4)]
        labelled = [(LABELS | {"engine": str(number)}, engine) for number, engine in enumerate(engines)]
        expected = page.text(Snapshot(labelled))
        for labels, engine in labelled[::3]:
            page.prepare(labels, engine, self.PACE)
        assert page.text(Snapshot(labelled)) == expected

    async def test_other_labels_or_settings_are_written_anew(self, busy):
        chosen = [EVERYTHING]
        page, engine = await self.page(0.0, 15.0, settings=lambda: chosen[0]), replace(busy, lines={})
        page.prepare(LABELS, engine, self.PACE)
        for labels, settings_ in ((LABELS | {"team": "b"}, EVERYTHING), (LABELS, Metrics())):
            chosen[0] = settings_
            expected = MetricsPage(lambda: chosen[0]).text(Snapshot([(labels, busy)]))
            assert page.text(Snapshot([(labels, engine)])) == expected


async def test_a_page_of_many_engines_comes_in_small_pieces_also_from_a_fast_machine(busy):
    engines = [(LABELS | {"engine": str(number)}, busy) for number in range(40)]
    page = MetricsPage(lambda: EVERYTHING, now=lambda: 0.0)
    pieces = [len(piece) async for piece in page.render(Snapshot(engines), Format(0))]
    assert max(pieces) < 2 * PIECE_CHARACTERS < sum(pieces) - max(pieces)


async def test_other_tasks_run_every_few_milliseconds():
    """A thousand engines take some hundred milliseconds, and a pause may come after each of them."""
    now, seen = [0.0], []

    def read(_):
        now[0] += 0.001
        return now[0]

    async def others():
        while True:
            seen.append(now[0])
            await asyncio.sleep(0)

    subject = Subject(("engine",), lambda _: [({"engine": str(number)}, number) for number in range(50)])
    row = Metric(Group.PAY, Profile.MINIMAL, "spec_decode_x", "Of drafts.", read, subject=subject)
    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    with table(row):
        page = MetricsPage(Metrics, now=lambda: now[0])
        text = b"".join([piece async for piece in page.render(Snapshot(), Format(0))]).decode()
    task.cancel()
    gaps = [after - before for before, after in pairwise([*seen, now[0]])]
    assert (max(gaps) <= 0.008, text.count("spec_decode_x{")) == (True, 50)
