"""The page in a real Chromium, from a whole exporter whose clock stands still unless a test moves it."""

import contextlib
import itertools
import re
import shutil

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.fakes.moved_fleet import Gone, Server, moved_fleet

playwright = pytest.importorskip("playwright.async_api", reason="pip install --group page")
axe_core = pytest.importorskip("axe_playwright_python.async_playwright", reason="pip install --group page")

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
COST = {"cost": {"draft_cost_ratio": 0.08}, "speculative": {"method": "eagle3"}}
STEADY = Server("steady", told=COST)
DROP = Server(
    "drop",
    changes={"acceptance": {"mean": 0.8}, "phases": [{"at": "200s", "acceptance": {"mean": 0.1}}]},
    told=COST,
)
MIXED = Server("mixed", "mixed", told={"cost": {"draft_cost_ratio": 0.6, "running_requests": 16}})
TAKEN = {"requests": {"ingest": True}}
HARMFUL = Server("harmful", "harmful", told={"cost": {"draft_cost_ratio": 0.3}})


@pytest.fixture
async def browser():
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture
def browse(browser):
    """Run an exporter of some servers, with a function that opens a page: none may complain or ask anybody else."""

    @contextlib.asynccontextmanager
    async def browse(servers, **config):
        contexts, complaints, origins = [], [], set()

        async def open_page(url, *, may_fail=False, **options):
            contexts.append(await browser.new_context(**options))
            contexts[-1].set_default_timeout(300_000)  # milliseconds
            page = await contexts[-1].new_page()
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda said: may_fail or complaints.append(said.text))
            page.on("dialog", lambda dialog: complaints.append(dialog.message))
            page.on("request", lambda request: origins.add(request.url.split("/")[2]))
            await page.goto(url)
            return page

        async with moved_fleet(servers, **config) as fleet:
            yield fleet, open_page
            # A page that outlives its exporter complains of its end.
            for context in contexts:
                await context.close()
            assert complaints == []
            assert origins <= {fleet.url.split("/")[2]}

    return browse


async def text_of(url):
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


async def metrics_of(url):
    """Return every sample of /metrics by its name, target and other labels, in the order of their names."""
    known = {}
    for family in parse(await text_of(f"{url}metrics")):
        for sample in family.samples:
            labels = dict(sorted(sample.labels.items()))
            own = tuple(labels[name] for name in labels if name not in {"target", "model_name", "engine"})
            known[sample.name, labels.get("target"), own] = sample.value
    return known


async def opened(page, target):
    """Open the row of a target, and every number there; return what is in it."""
    row = page.locator("tbody", has=page.locator(f'tr.engine th bdi:text-is("{target}")'))
    await row.locator("a.opener").click()
    await row.locator(".every-number > summary").click()
    await row.locator(".panel .figures-table").wait_for()
    return row


async def test_a_drop_shows_in_the_line_at_once_and_as_an_event_with_the_next_poll_of_the_page(browse):
    async with browse([DROP]) as (fleet, open_page):
        await fleet.advance(200)
        page = await open_page(f"{fleet.url}?q=drop")
        before = await page.locator(".figures data").first.get_attribute("value")
        await fleet.advance(2)
        await page.wait_for_function(
            "before => document.querySelector('.figures data').value !== before", arg=before
        )
        points = await page.locator(".spark .line").get_attribute("d")
        *_, before, last = map(float, re.findall(r"[\d.]+ ([\d.]+)", points))
        assert last > before + 5  # of 100, from the top
        assert await page.locator(".spark .event.drop").count() == 0
        for _ in range(60):
            await fleet.advance(1)
            if (await metrics_of(fleet.url))["spec_decode_acceptance_dropped", "drop", ("sudden",)]:
                break
        assert "event drop" in await text_of(f"{fleet.url}fragment?q=drop")
        await page.locator(".spark .event.drop").wait_for(state="attached")
        assert await page.locator(".events li.drop.bad").count() == 1


async def test_it_is_whole_without_a_script(browse):
    async with browse([STEADY, HARMFUL]) as (fleet, open_page):
        await fleet.advance(310)
        page = await open_page(fleet.url, java_script_enabled=False)
        assert await page.locator("tr.engine").count() == 2
        await page.locator("a.opener").first.click()
        await page.locator(".every-number > summary").click()
        await page.locator(".panel .figures-table").wait_for()
        await page.locator("#filter").fill("verdict=harmful")
        await page.locator("#filter").press("Enter")
        await page.wait_for_url("**q=verdict%3Dharmful**")
        assert await page.locator("tr.engine").count() == 1
        assert "engine=" in page.url  # what was open stays open
        assert await page.locator("meta[http-equiv=refresh]").count() == 1


async def test_the_filter_works_as_it_is_typed_and_is_in_the_address(browse):
    async with browse([STEADY, HARMFUL]) as (fleet, open_page):
        await fleet.advance(310)
        page = await open_page(fleet.url)
        await page.keyboard.press("/")
        await page.keyboard.type("eagle3")
        await page.wait_for_url("**/?q=eagle3")  # a slow machine filters by a part of the text first
        await page.wait_for_function("() => document.querySelectorAll('tr.engine').length === 1")
        assert await page.locator("#found").inner_text() == "1 of 2"
        assert await page.evaluate("document.activeElement.id") == "filter"
        await page.keyboard.press("Escape")
        await page.wait_for_function("() => document.querySelectorAll('tr.engine').length === 2")
        await page.locator(".chip", has_text="Harmful").click()
        await page.wait_for_url("**q=verdict%3Dharmful")
        await page.locator("#filter").fill("unknown")
        await page.locator(".empty-state").wait_for()
        await page.go_back()


async def test_the_keyboard_is_enough(browse):
    async with browse([STEADY, HARMFUL]) as (fleet, open_page):
        await fleet.advance(40)
        page = await open_page(fleet.url)
        for key in ("j", "k", "ArrowDown"):
            await page.keyboard.press(key)
        assert await page.evaluate("document.activeElement === document.body"), (
            "letters mean a row only on one"
        )
        for key in ("/", "ArrowDown", "ArrowDown"):
            await page.keyboard.press(key)
        opener = page.locator("a.opener").nth(1)
        assert await opener.evaluate("one => one === document.activeElement")
        assert await opener.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
        await page.keyboard.press("Enter")
        await page.locator(".panel").wait_for()
        assert await opener.get_attribute("aria-expanded") == "true"
        assert await opener.evaluate("one => one === document.activeElement")
        await page.keyboard.press("Escape")
        await page.locator(".panel").wait_for(state="detached")
        await page.keyboard.press("ArrowUp")
        assert await page.locator("a.opener").first.evaluate("one => one === document.activeElement")
        await page.keyboard.press("j")
        assert await opener.evaluate("one => one === document.activeElement")
        await page.keyboard.press("Enter")
        await page.locator(".panel .scrolls").focus()
        await page.keyboard.press("Escape")
        await page.locator(".panel").wait_for(state="detached")
        assert await opener.evaluate("one => one === document.activeElement"), "the row that was closed"


async def test_what_one_was_about_stays_while_the_numbers_change(browse):
    async with browse([STEADY, HARMFUL]) as (fleet, open_page):
        await fleet.advance(310)  # until then the statement counts the seconds of an early verdict
        page = await open_page(fleet.url, viewport={"width": 1200, "height": 500})
        row = await opened(page, "steady")
        await page.locator("nav a", has_text="Glossary").click()
        await page.evaluate("getSelection().selectAllChildren(document.querySelector('.statement'))")
        await row.locator(".panel .scrolls").evaluate("one => one.focus({preventScroll: true})")
        await page.evaluate("scrollTo(0, 300)")
        selected = await page.evaluate("getSelection().toString()")
        shown = await page.locator(".asof time").inner_text()
        await fleet.advance(1)
        await page.wait_for_function(
            "shown => document.querySelector('.asof time').textContent !== shown", arg=shown
        )
        assert await page.evaluate("getSelection().toString()") == selected
        assert await page.evaluate("scrollY") == 300
        assert await page.locator("#glossary").get_attribute("open") is not None
        assert await row.locator(".panel .scrolls").evaluate("one => one === document.activeElement")


async def test_it_says_what_it_was_answered_and_does_not_come_back_before_it_may(browse):
    async with browse([STEADY]) as (fleet, open_page):
        await fleet.advance(10)
        page = await open_page(fleet.url, may_fail=True)
        as_of = await page.locator(".asof time").inner_text()
        asked = []

        async def refuse(route):
            asked.append(route)
            said = "16 pages are being read already; come again later.\n"
            await route.fulfill(
                status=503, body=said, headers={"Content-Type": "text/plain", "Retry-After": "600"}
            )

        await page.route("**/fragment*", refuse)
        said = f"Stale since {as_of}: it answered 503: 16 pages are being read already; come again later."
        await page.locator("#live", has_text=said).wait_for()
        await page.wait_for_timeout(4000)
        assert len(asked) == 1


async def test_axe_finds_nothing_to_object_to(browse):
    off, gone = Server("off", changes={"speculation": {"tokens": 0}}), Server("gone", answers=Gone)
    servers = [STEADY, MIXED, DROP, HARMFUL, off, gone]
    async with browse(servers, poll={"interval": "5s"}, **TAKEN) as (fleet, open_page):
        await fleet.advance(310)
        for scheme, width in itertools.product(("light", "dark"), (320, 1280)):
            page = await open_page(
                fleet.url,
                color_scheme=scheme,
                viewport={"width": width, "height": 900},
                reduced_motion="reduce",
                bypass_csp=True,  # for axe's own script
            )
            await page.locator("#glossary summary").click()
            await opened(page, "drop")
            assert await page.evaluate("document.documentElement.scrollWidth") == width
            await page.evaluate(axe_core.Axe().axe_script)
            found = (await page.evaluate("axe.run()"))["violations"]
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
