"""Pictures of the page, of a simulated fleet on a moved clock: ``python -m docs.generate.page_pictures``.

Needs the group `page`, Chromium, and Debian's fonts-inter for the page's first choice of a font.
"""

from __future__ import annotations

import asyncio
import io
import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from PIL import Image
from playwright.async_api import Browser, Page, async_playwright

from tests.fakes.moved_fleet import Gone, MovedFleet, Server, moved_fleet
from tests.paths import CHECKOUT

OUT = CHECKOUT / "docs" / "images"
WALL = 1_790_000_000.0
DROP_AT = 360
"""Seconds; the longest window is full before."""


class GoneLater(Gone):
    """It answers for five minutes."""

    answered = 300


Section = Mapping[str, Any]


def _server(
    name: str, scenario: str, model: str, method: str = "", *, cost: Section | None = None, **changes: object
) -> Server:
    """Return a server; ``changes`` are what is different from the scenario."""
    told: dict[str, Any] = {"cost": cost or {"draft_cost_ratio": 0.08}}
    told |= {"speculative": {"method": method}} if method else {}
    return Server(name, scenario, {"model_name": model, **changes}, told)


LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
CODER = "Qwen/Qwen3-Coder-30B"
BY_LOAD = {8: 0.08, 32: 0.25, 96: 0.8}
WAVES_AND_A_DROP: Section = {
    "acceptance": {"mean": 0.78, "spread": 0.1, "decay": 0.92},
    "load": {"rate": 3},
    "phases": [
        {"at": "5m", "load": {"rate": 9}},
        {"at": "7m", "load": {"rate": 3}},
        {"at": "11m", "acceptance": {"mean": 0.4}},
        {"at": "14m", "acceptance": {"mean": 0.78}},
    ],
    "repeat": "20m",
}
DROPPING: Section = {
    "acceptance": {"mean": 0.78},
    "phases": [
        {"at": f"{DROP_AT}s", "acceptance": {"mean": 0.2}},
        {"at": f"{DROP_AT + 100}s", "acceptance": {"mean": 0.78}},
    ],
}
CHAT = _server("chat-1", "steady", LLAMA, "eagle3")
BATCH = _server("batch", "harmful", "Qwen/Qwen3-32B", "draft_model", cost={"draft_cost_ratio": 0.3})
DROPS = _server("chat-3", "steady", LLAMA, "eagle3", **DROPPING)
LOADS: Section = {
    "loads": [{"running_requests": load, "draft_cost_ratio": cost} for load, cost in BY_LOAD.items()]
}
SEARCH: Section = {"draft_cost_ratio": 0.0, "fixed_cost_ratio": 0.05}
MISTRAL = "mistralai/Mistral-Small-3.2-24B"
NEW = Server("chat-new", "unknown-cost", told={"speculative": {"method": "eagle3"}})
FEW = [CHAT, BATCH, DROPS]
FLEET = [
    DROPS,
    CHAT,
    _server("chat-2", "overload", LLAMA, "eagle3", cost=LOADS, **WAVES_AND_A_DROP),
    _server("code-1", "k-change", CODER, "mtp"),
    _server("code-2", "ngram", CODER, "ngram", cost=SEARCH),
    BATCH,
    replace(NEW, changes={"phases": []}),
    _server("assist", "mixed", MISTRAL, "draft_model", cost={"draft_cost_ratio": 0.45}),
    Server("chat-4", "steady", {"model_name": LLAMA}, answers=GoneLater),
]
"""Each shows something that the page is for."""


async def _open(browser: Browser, url: str, width: int, height: int, **options: str) -> Page:
    context = await browser.new_context(
        viewport={"width": width, "height": height}, reduced_motion="reduce", **options
    )
    page = await context.new_page()
    await page.goto(url)
    await page.locator("#live[data-state=live]").wait_for()
    return page


async def _refreshed(page: Page) -> None:
    """Let the page ask again, now."""
    async with page.expect_response("**/fragment*"):
        await page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    await page.wait_for_timeout(60)


async def _stills(browser: Browser, fleet: MovedFleet) -> None:
    for name, width, scheme, opened in (
        ("page", 1280, "light", True),
        ("page-dark", 1280, "dark", False),
        ("page-narrow", 390, "light", False),
    ):
        page = await _open(browser, fleet.url, width, 1000, color_scheme=scheme)
        if opened:
            await page.locator("a.opener").first.click()
            await page.locator(".panel").wait_for()
            await page.locator("h1").click()
        height = {"page": 1420, "page-dark": 940, "page-narrow": 1100}[name]
        await page.set_viewport_size({"width": width, "height": height})
        await _refreshed(page)
        _save(Image.open(io.BytesIO(await page.screenshot())), OUT / f"{name}.png")
        await page.context.close()


async def _requests(browser: Browser) -> None:
    """Take the section of single requests, of a mix of them."""
    server = _server("chat-1", "mixed", LLAMA, cost={"draft_cost_ratio": 0.45})
    async with moved_fleet([server], WALL, requests={"ingest": True}) as fleet:
        await fleet.advance(320)
        page = await _open(browser, fleet.url, 1280, 1400)
        section = page.locator("section[data-key=requests]")
        _save(Image.open(io.BytesIO(await section.screenshot())), OUT / "requests.png")
        await page.context.close()


async def _moving(browser: Browser, fleet: MovedFleet) -> None:
    """Take a picture every four seconds while acceptance drops and comes back."""
    page = await _open(browser, fleet.url, 1120, 860)
    await page.locator("a.opener").last.click()
    await page.locator(".panel .chart").wait_for()
    await page.evaluate("() => scrollTo(0, 0)")
    frames = []
    for _ in range(48):
        await fleet.advance(4)
        await _refreshed(page)
        await page.evaluate("() => scrollTo(0, 0)")  # where the row goes that is read, the page follows
        frames.append(Image.open(io.BytesIO(await page.screenshot())).convert("RGB"))
    last = [125] * (len(frames) - 1) + [2500]
    frames[0].save(
        OUT / "page.webp",
        save_all=True,
        append_images=frames[1:],
        duration=last,
        loop=0,
        quality=45,
        method=6,
    )
    await page.context.close()


def _save(picture: Image.Image, path: Path) -> None:
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


async def draw() -> None:
    """Write the pictures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        async with moved_fleet(FEW, WALL) as fleet:
            await fleet.advance(DROP_AT - 12)
            await _moving(browser, fleet)
        async with moved_fleet(FLEET, WALL) as fleet:
            await fleet.advance(DROP_AT + 154)
            await _stills(browser, fleet)
        await _requests(browser)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(draw())
