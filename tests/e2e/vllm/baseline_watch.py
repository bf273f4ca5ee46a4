"""Read the speed-up and the baseline of an exporter's page and API."""

from __future__ import annotations

import json
from typing import Any

from process import get
from watch import Page, Watch

CONFIG = """\
windows: [30s, {window}]
targets:
  - url: {{url}}/metrics
    name: {{target}}
metrics: {{{{profile: full}}}}
{more}
"""
SPEEDUP = "spec_decode_estimated_speedup_ratio"
REQUEST_SPEEDUP = "spec_decode_end_to_end_speedup_ratio"
COST = "spec_decode_draft_cost_ratio"


def config(window: str, **more: object) -> str:
    """Return a configuration with more sections, for ``watch``."""
    sections = (f"{key}: {json.dumps(value)}" for key, value in more.items())
    braced = "\n".join(sections).replace("{", "{{").replace("}", "}}")
    return CONFIG.format(window=window, more=braced)


def engine(watching: Watch) -> Any:
    """Return the engine as the API describes it; None while there is none."""
    engines = json.loads(get(f"{watching.server.url}/api/v1/snapshot"))["engines"]
    return next(iter(engines), None)


def learned(watching: Watch, seconds: float) -> bool:
    """Return whether the time without speculation is long enough, with its time to first token."""
    found = engine(watching)
    baseline = found and found["baseline"]
    return bool(
        baseline and baseline["seconds"] >= seconds and baseline["time_to_first_token_seconds"] is not None
    )


def bounds(page: Page, name: str, window: str, **labels: str) -> tuple[float, float, float]:
    """Return lower bound, value and upper bound in a window."""
    names = (f"{name}_lower", name, f"{name}_upper")
    low, value, high = (page.sum(each, window=window, **labels) for each in names)
    return low, value, high


def has_bounds(watching: Watch, window: str, **cost: str) -> bool:
    """Return whether the cost is known with these labels, and the speed-up of a request has bounds."""
    page = watching.page()
    return bool(page.find(COST, **cost) and page.find(f"{REQUEST_SPEEDUP}_lower", window=window))


def said(page: Page) -> str:
    """Return the speed-ups of a page with their bounds, and the source of the cost."""
    texts = [f"c by {cost.labels['source']} {cost.value:.3f}" for cost in page.find(COST)]
    for name, subject in ((SPEEDUP, "a token"), (REQUEST_SPEEDUP, "a request")):
        for low in page.find(f"{name}_lower"):
            window = low.labels["window"]
            _, value, high = bounds(page, name, window)
            texts.append(f"{subject} in {window} {value:.3f} [{low.value:.3f}, {high:.3f}]")
    return "; ".join(texts)
