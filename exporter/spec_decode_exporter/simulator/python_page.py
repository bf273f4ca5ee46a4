"""Page of vLLM's Python front end: text 0.0.4, from one process or merged from several."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from prometheus_client.utils import floatToGoString

from spec_decode_exporter.simulator.histogram import SimulatedHistogram
from spec_decode_exporter.simulator.metric_family import FamilyKind, FamilySample, Labels, MetricFamily
from spec_decode_exporter.simulator.page_families import ROWS, FamilyRow
from spec_decode_exporter.simulator.process_families import cache_config, process_families

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from spec_decode_exporter.simulator.simulated_engine import SimulatedEngine
    from spec_decode_exporter.simulator.simulation import Simulation
    from spec_decode_exporter.simulator.unix_time import UnixTime

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_CREATION_GAP: Final = 2e-5
"""Series are created one after the other, so their creation times differ."""

_MERGED_ORDER: Final = (FamilyKind.GAUGE, FamilyKind.COUNTER, FamilyKind.HISTOGRAM)
"""Order of the families on a page that is merged from several processes."""


def python_page(simulation: Simulation, unix: UnixTime) -> bytes:
    """Return the whole page at the present moment of the simulation."""
    if simulation.scenario.api_servers > 1:
        return _text(_merged_families(simulation))
    return _text(python_families(simulation, unix))


def filtered_page(simulation: Simulation, unix: UnixTime, names: Container[str]) -> bytes:
    """Return only the samples of these names; with several API servers nothing, as vLLM does."""
    if simulation.scenario.api_servers > 1:
        return b""
    kept = (family.restricted(names) for family in python_families(simulation, unix))
    return _text(family for family in kept if family)


def python_families(simulation: Simulation, unix: UnixTime) -> list[MetricFamily]:
    """Return the families of a server with one process, in the order of its page."""
    life, scenario = simulation.life, simulation.scenario
    gaps = count()
    families = [
        *process_families(unix.of(life.process_began), simulation.now - life.process_began),
        *_engine_families(simulation),
        cache_config(scenario.machine.max_model_len, scenario.machine.kv_tokens, scenario.engines),
    ]
    return [_with_creation(family, unix.of(life.began), gaps) for family in families]


def _merged_families(simulation: Simulation) -> list[MetricFamily]:
    scenario = simulation.scenario
    families = [
        *(_sum_first(family) for family in _engine_families(simulation)),
        cache_config(scenario.machine.max_model_len, scenario.machine.kv_tokens, scenario.engines),
    ]
    return sorted(families, key=lambda family: _MERGED_ORDER.index(family.kind))


def _engine_families(simulation: Simulation) -> Iterator[MetricFamily]:
    life, model = simulation.life, simulation.scenario.model_name
    for row in ROWS:
        if life.tokens or not row.speculative:
            yield _family(row, life.engines, model)
        if row.name == "request_success":
            yield _rejections(model)


def _rejections(model: str) -> MetricFamily:
    """Return vLLM's only family without an engine; no queue is limited here."""
    name = "vllm:admission_rejections"
    reasons = ("max_num_queued_reqs", "max_num_queued_tokens")
    samples = [
        FamilySample(f"{name}_total", (("model_name", model), ("reason", reason)), 0) for reason in reasons
    ]
    text = "Number of admission attempts rejected by a queue limit, by reason."
    return MetricFamily(name, FamilyKind.COUNTER, text, samples)


def _family(row: FamilyRow, engines: Sequence[SimulatedEngine], model: str) -> MetricFamily:
    name = f"vllm:{row.name}"
    written = f"{name}_total" if row.kind is FamilyKind.COUNTER else name
    samples = [
        sample
        for engine, each in enumerate(engines)
        for sample in _samples(row, written, engine, each, model)
    ]
    if row.label and row.label != "position":
        # vLLM creates these for all engines label by label, but positions engine by engine.
        values = list(dict.fromkeys(dict(sample.labels)[row.label] for sample in samples))
        samples.sort(key=lambda sample: values.index(dict(sample.labels)[row.label]))
    return MetricFamily(name, row.kind, row.help, samples)


def _samples(
    row: FamilyRow, name: str, index: int, engine: SimulatedEngine, model: str
) -> list[FamilySample]:
    value = row.read(engine)
    labels = (("engine", str(index)), ("model_name", model))
    if isinstance(value, SimulatedHistogram):
        return _histogram(name, labels, value)
    if isinstance(value, float | int):
        return [FamilySample(name, labels, value)]
    return [FamilySample(name, _sorted(labels, row.label, key), number) for key, number in value.items()]


def _histogram(name: str, labels: Labels, histogram: SimulatedHistogram) -> list[FamilySample]:
    bounds = (*map(str, histogram.bounds), "+Inf")
    return [
        *(
            FamilySample(f"{name}_bucket", _sorted(labels, "le", bound), number)
            for bound, number in zip(bounds, histogram.cumulative(), strict=True)
        ),
        FamilySample(f"{name}_count", labels, histogram.count),
        FamilySample(f"{name}_sum", labels, histogram.total),
    ]


def _sorted(labels: Labels, name: str, value: str) -> Labels:
    return tuple(sorted((*labels, (name, value))))


def _with_creation(family: MetricFamily, created: float, gaps: count[int]) -> MetricFamily:
    """Add prometheus_client's creation times of vLLM's counters and histograms."""
    if family.kind is FamilyKind.GAUGE or not family.name.startswith("vllm:"):
        return family
    kept = "_total" if family.kind is FamilyKind.COUNTER else "_count"
    times = [
        FamilySample(f"{family.name}_created", sample.labels, created + next(gaps) * _CREATION_GAP)
        for sample in family.samples
        if sample.name == family.name + kept
    ]
    return MetricFamily(family.name, family.kind, family.help, family.samples, times)


def _sum_first(family: MetricFamily) -> MetricFamily:
    """Order a histogram's samples as on a merged page: each engine's sum before its buckets."""
    if family.kind is not FamilyKind.HISTOGRAM:
        return family
    rank = {"sum": 0, "bucket": 1, "count": 2}
    samples = sorted(
        family.samples,
        key=lambda sample: (int(dict(sample.labels)["engine"]), rank[sample.name.rsplit("_", 1)[1]]),
    )
    return MetricFamily(family.name, family.kind, family.help, samples)


def _text(families: Iterable[MetricFamily]) -> bytes:
    return "".join([line for family in families for line in _lines(family)]).encode()


def _lines(family: MetricFamily) -> Iterator[str]:
    shown = f"{family.name}_total" if family.kind is FamilyKind.COUNTER else family.name
    yield f"# HELP {shown} {family.help}\n# TYPE {shown} {family.kind}\n"
    yield from map(_line, family.samples)
    if family.created:
        created = f"{family.name}_created"
        yield f"# HELP {created} {family.help}\n# TYPE {created} gauge\n"
        yield from map(_line, family.created)


def _line(sample: FamilySample) -> str:
    labels = ",".join([f'{name}="{value}"' for name, value in sample.labels])
    braces = f"{{{labels}}}" if labels else ""
    return f"{sample.name}{braces} {_written(sample.value)}\n"


def _written(value: float) -> str:
    """Format a number as prometheus_client does: a float, from 1e6 on with an exponent."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]
