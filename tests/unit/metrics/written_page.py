"""Render a snapshot as the exporter does, and read the page back."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from spec_decode_exporter.config.schema import Metrics, Profile
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.page import MetricsPage
from spec_decode_exporter.metrics.table import METRICS

EVERYTHING = Metrics(profile=Profile.FULL)
_LABELS = {
    metric.name.removesuffix("_total"): (metric.subject.labels, metric.label_names) for metric in METRICS
}


async def page_of(snapshot, settings=EVERYTHING, format_=Format.TEXT_0_0_4):
    page = MetricsPage(lambda: settings)
    return b"".join([piece async for piece in page.render(snapshot, format_)]).decode()


def families_of(snapshot, settings=EVERYTHING, errors=None):
    """Return the families on the page of a snapshot, as prometheus_client's parser reads them."""
    text = MetricsPage(lambda: settings, errors).text(snapshot, Format.OPENMETRICS_1_0_0)
    families = list(text_string_to_metric_families(text))
    for family in families:
        family.samples = [_own_labels_last(family.name, sample) for sample in family.samples]
    return families


def _own_labels_last(family, sample):
    """Return a sample whose labels are in the order of the metric table: the subject's, its own, ``le``."""
    carried, own = _LABELS[family]
    configured = sorted(sample.labels.keys() - {*carried, *own, "le"})
    order = [*carried, *configured, *own, "le"]
    return sample._replace(labels={name: sample.labels[name] for name in order if name in sample.labels})
