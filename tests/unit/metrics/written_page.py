"""Render a snapshot as the exporter does, and read the page back."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from spec_decode_exporter.metrics.catalogue import CATALOGUE, NAMES
from spec_decode_exporter.metrics.exposition import Exposition
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.selection import Selection
from spec_decode_exporter.metrics.snapshot_writer import SnapshotWriter

EVERYTHING = Selection(NAMES)
_VIEWS = ("target", "model_name", "engine", "experiment", "arm", "baseline")
_LABELS = {metric.family: metric.labels for metric in CATALOGUE}


async def page_of(snapshot, selection=EVERYTHING, format_=Format.TEXT_0_0_4):
    """Return the page of a snapshot."""
    writer = SnapshotWriter(lambda: selection)
    return b"".join([piece async for piece in Exposition([writer]).render(snapshot, format_)]).decode()


def families_by(writer, snapshot):
    """Return the families that a writer writes, as prometheus_client's parser reads them."""
    text = "".join(piece.text for piece in writer.pieces(snapshot, Format.OPENMETRICS_1_0_0))
    families = list(text_string_to_metric_families(f"{text}# EOF\n"))
    for family in families:
        family.samples = [_own_labels_last(family.name, sample) for sample in family.samples]
    return families


def families_of(snapshot, selection=EVERYTHING):
    """Return the families on the page of a snapshot."""
    return families_by(SnapshotWriter(lambda: selection), snapshot)


def _own_labels_last(family, sample):
    """Return a sample whose labels are in the order of the metric table: the view's, its own, ``le``."""
    own = (*_LABELS[family], "le")
    order = [
        *(name for name in _VIEWS if name not in own),
        *sorted(sample.labels.keys() - {*_VIEWS, *own}),
        *own,
    ]
    return sample._replace(labels={name: sample.labels[name] for name in order if name in sample.labels})
