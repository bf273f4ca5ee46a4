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
        carried, own = _LABELS[family.name]
        for number, sample in enumerate(family.samples):
            # Labels in the order of the metric table: the subject's, its own, ``le``.
            configured = sorted(sample.labels.keys() - {*carried, *own, "le"})
            order = [name for name in (*carried, *configured, *own, "le") if name in sample.labels]
            family.samples[number] = sample._replace(labels={name: sample.labels[name] for name in order})
    return families
