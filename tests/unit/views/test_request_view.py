"""JSON of single requests agrees with the metrics and the page."""

import itertools

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.views.request_view import lists
from tests.fakes.mixed_requests import mixed_requests
from tests.unit.metrics.test_request_metrics import values_of


async def test_the_histograms_are_those_of_the_metrics():
    findings = await mixed_requests(60.0)
    groups = list(lists(findings, Isolation())["since_start"])
    assert len(groups) == 4
    for name, group in itertools.product(("acceptance_ratio", "acceptance_length_tokens"), groups):
        labels = (group.model_name, group.request_type, group.temperature)
        said = getattr(group, f"{name}_histogram")
        buckets = values_of(findings, f"spec_decode_request_{name}_bucket")
        bounds = [*map(str, said.upper_bounds), "+Inf"]
        counts = itertools.accumulate(said.counts)
        cumulative = {(*labels, bound): n for bound, n in zip(bounds, counts, strict=True)}
        assert cumulative == {key: value for key, value in buckets.items() if key[:3] == labels}
        assert sum(said.counts) == values_of(findings, f"spec_decode_request_{name}_count")[labels]
        assert said.sum == values_of(findings, f"spec_decode_request_{name}_sum")[labels]
