"""Picture of the report of three days of a simulated server: ``python -m docs.generate.history_picture``.

Needs Chromium, and Debian's fonts-inter as the pictures of the page do; the simulation takes some minutes.
"""

from __future__ import annotations

import asyncio
import io
import shutil
from math import cos, pi
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.async_api import async_playwright

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.history.history_reader import HistoryQuery, read_history
from spec_decode_exporter.history.query_api import QueryApi
from spec_decode_exporter.reports.history_report import history_html
from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes import simulated_history
from tests.paths import CHECKOUT

PICTURE = CHECKOUT / "docs" / "images" / "history.png"
MIDNIGHT = 1_789_948_800.0
"""21 September 2026."""
HOUR = 3600
HOURS = 72
INTERVAL = 60
EVENTS: dict[int, dict[str, Any]] = {
    14: {"restart": {"down": "60s", "tokens": 4}},
    37: {"acceptance": {"mean": 0.35}},
    40: {"acceptance": {"mean": 0.78}},
    60: {"restart": {"down": "60s", "tokens": 3}},
}
"""Changes by hour."""


def _scenario() -> Scenario:
    """Return a server with load by day and night, on which speculation is enabled on the first day."""
    phases = [
        {
            "at": f"{hour}h",
            "load": {"concurrency": round(8 - 6 * cos(hour * pi / 12))},
            **EVENTS.get(hour, {}),
        }
        for hour in range(1, HOURS)
    ]
    speculation = {"tokens": 0, "method": "draft_model"}
    return Scenario.model_validate(
        {
            "speculation": speculation,
            "load": {"concurrency": 2},
            "acceptance": {"mean": 0.78},
            "machine": {"saturation": 50},
            "phases": phases,
        }
    )


async def _report() -> str:
    fakes: Any = simulated_history  # tests have no annotations
    stored = fakes.StoredHistory(start=MIDNIGHT)
    stored.simulate(_scenario(), HOURS * HOUR, INTERVAL, job="vllm", instance="vllm-0:8000")
    query = HistoryQuery(MIDNIGHT, stored.now)
    known = Assumptions(Speculation("draft_model", "configured"))
    return history_html(
        await read_history(QueryApi("http://prometheus:9090", stored), query, lambda _: known)
    )


async def draw() -> None:
    """Write the picture."""
    report = await _report()
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = await browser.new_page(viewport={"width": 1120, "height": 1145})
        with TemporaryDirectory() as folder:
            path = Path(folder) / "history.html"
            path.write_text(report, encoding="utf-8")
            await page.goto(path.as_uri())
            picture = Image.open(io.BytesIO(await page.screenshot()))
        await browser.close()
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(PICTURE, optimize=True)


if __name__ == "__main__":
    asyncio.run(draw())
