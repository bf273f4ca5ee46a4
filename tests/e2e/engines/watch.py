"""The exporter as its users run it: the installed command, a file, its page and its API."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clients import Truth
from process import LOGS, PATIENCE, get
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.e2e.conftest import Exporter, eventually

TARGET = "server"
LONG = "10m"  # longer than a whole scenario
SPEEDUP = "spec_decode_estimated_speedup_ratio"
REQUEST_SPEEDUP = "spec_decode_end_to_end_speedup_ratio"
COST = "spec_decode_draft_cost_ratio"


@dataclass(frozen=True)
class Page:
    """One page of the exporter."""

    samples: tuple[Sample, ...]

    def find(self, name: str, **labels: str) -> list[Sample]:
        """Return the samples of a name that have at least these labels."""
        return [
            sample
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def sum(self, name: str, **labels: str) -> float:
        """Add up the engines; a metric that is absent is an error, since it would pass for a 0."""
        found = self.find(name, **labels)
        assert found, f"the exporter has no {name}{labels or ''}"
        return math.fsum(sample.value for sample in found)

    def positions(self, name: str, **labels: str) -> tuple[float, ...]:
        """Add up the engines, position by position."""
        names = {sample.labels["position"] for sample in self.find(name, **labels)}
        return tuple(self.sum(name, position=position, **labels) for position in sorted(names, key=int))


def page_of(url: str) -> Page:
    """Read the metrics page of an exporter or of an engine now."""
    families = text_string_to_metric_families(get(f"{url}/metrics"))
    return Page(tuple(sample for family in families for sample in family.samples))


def state(page: Page) -> str:
    """Return the state of speculation in the longest window."""
    [present] = [sample.labels["state"] for sample in page.find("spec_decode_state") if sample.value == 1]
    return present


class Watch(Exporter):
    """A running exporter that watches one server."""

    def page(self) -> Page:
        """Read its page now."""
        return page_of(self.url)

    def api(self, path: str) -> Any:
        """Ask its API."""
        return json.loads(get(f"{self.url}/api/v1/{path}"))

    def up(self) -> bool:
        """Return whether the last poll succeeded: from then on counts are measured."""
        found = self.page().find("spec_decode_exporter_target_up", target=TARGET)
        return [sample.value for sample in found] == [1]

    def shows(self, series: Mapping[str, Mapping[str, str]]) -> bool:
        """Return whether the page has samples of each of these names, with at least these labels."""
        page = self.page()
        return all(page.find(name, **labels) for name, labels in series.items())

    def settled(self, polls: int = 2) -> Page:
        """Return the page after ``polls`` further successful polls, which include all earlier requests."""
        enough = self._successes() + polls
        eventually(lambda: self._successes() >= enough, what=f"{polls} further polls; see {self.log_path}")
        return self.page()

    def complaints(self, *, filtered: bool = True) -> list[str]:
        """Return the log lines about failures, or about a filtered page that is incomplete if the server has one.

        What the exporter says of a worse acceptance is no such thing: the tests raise the temperature.
        """
        expected = ("event=acceptance_dropped", "event=verdict_changed")
        wrong = ("level=warning", "level=error", *(["event=filtered_page_not_used"] if filtered else []))
        lines = self.log.splitlines()
        complaints = [line for line in lines if any(word in line for word in wrong)]
        return [line for line in complaints if not any(word in line for word in expected)]

    def _successes(self) -> float:
        page = self.page()
        failures = page.sum("spec_decode_exporter_poll_failures_total", target=TARGET)
        return page.sum("spec_decode_exporter_polls_total", target=TARGET) - failures


@contextlib.contextmanager
def watch(
    name: str, url: str, *, port: int | None = None, window: str = LONG, **more: object
) -> Iterator[Watch]:
    """Run the exporter against a server; the block begins at its first successful poll.

    ``window`` is its long one, ``more`` are sections of its configuration.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    target = {"url": f"{url}/metrics", "name": TARGET}
    told = {"windows": ["30s", window], "targets": [target], "metrics": {"profile": "full"}, **more}
    watching = Watch(LOGS, json.dumps(told), name=f"{name}-exporter", port=port)
    try:
        watching.wait_for(f"{watching.url}/-/healthy")
        eventually(watching.up, what=f"a successful poll; see {watching.log_path}")
        yield watching
    finally:
        watching.stop(PATIENCE)


def learned(watching: Watch, seconds: float) -> bool:
    """Return whether the time without speculation is long enough, with its time to first token."""
    baselines = [engine["baseline"] for engine in watching.api("snapshot")["engines"] if engine["baseline"]]
    return any(
        one["seconds"] >= seconds and one["time_to_first_token_seconds"] is not None for one in baselines
    )


def bounds(page: Page, name: str, window: str, **labels: str) -> tuple[float, float, float]:
    """Return lower bound, value and upper bound in a window."""
    names = (f"{name}_lower", name, f"{name}_upper")
    low, value, high = (page.sum(each, window=window, **labels) for each in names)
    return low, value, high


HEAD = f"{'scenario':<34}{'requests':>9}{'drafts':>17}{'draft tokens':>19}{'accepted':>17}"


def row(scenario: str, page: Page, truth: Truth) -> str:
    """Return a row of the table at the end of the run: sums of the responses, and of the exporter."""
    names = ("drafts", "draft_tokens", "accepted_tokens")
    pairs = [f"{getattr(truth, name)} | {page.sum(f'spec_decode_{name}_total'):.0f}" for name in names]
    return f"{scenario:<34}{truth.requests:>9}{pairs[0]:>17}{pairs[1]:>19}{pairs[2]:>17}"


def said(page: Page) -> str:
    """Return the speed-ups of a page with their bounds, and the source of the cost."""
    texts = [f"c by {cost.labels['source']} {cost.value:.3f}" for cost in page.find(COST)]
    for name, subject in ((SPEEDUP, "a token"), (REQUEST_SPEEDUP, "a request")):
        for low in page.find(f"{name}_lower"):
            window = low.labels["window"]
            _, value, high = bounds(page, name, window)
            texts.append(f"{subject} in {window} {value:.3f} [{low.value:.3f}, {high:.3f}]")
    return "; ".join(texts)
