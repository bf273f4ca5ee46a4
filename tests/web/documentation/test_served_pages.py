"""The documentation under ``/docs/``."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace

import pytest

from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.documentation.served_pages import DOCUMENTS
from spec_decode_exporter.web.security.hosts import AllowedHosts


@pytest.fixture
async def client(aiohttp_client, make_state):
    return await aiohttp_client(create_app(make_state()))


async def test_every_page_is_html_with_the_headers_of_the_exporter_s_page(client):
    plain = await client.get("/")
    for path in DOCUMENTS:
        answer = await client.get(path)
        assert (answer.status, answer.content_type) == (200, "text/html"), path
        for header in ("Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options"):
            assert answer.headers[header] == plain.headers[header]
        assert "<script" not in await answer.text()


async def test_the_path_without_its_last_slash_leads_to_the_index_behind_any_proxy(client):
    answer = await client.get("/docs", allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (301, "docs/")


async def test_every_link_and_anchor_within_the_documentation_leads_somewhere(client):
    pages = {path: await (await client.get(path)).text() for path in DOCUMENTS}
    broken = []
    for path, html in pages.items():
        for href in re.findall(r'href="([^"]+)"', html):
            if re.match(r"https?:", href):
                continue
            file, _, anchor = href.partition("#")
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            goal = goal if goal in pages else f"{goal}/"
            if goal in pages and (not anchor or f'id="{anchor}"' in pages[goal]):
                continue
            if (await client.get(goal.rstrip("/") or "/")).status != 200:
                broken.append((path, href))
    assert broken == []


async def test_the_index_names_every_document(client):
    index = await (await client.get("/docs/")).text()
    assert all(f'href="{path.removeprefix("/docs/")}"' in index for path in DOCUMENTS if path != "/docs/")
    assert "<title>Documentation</title>" in index


async def test_an_unknown_document_is_not_found(client):
    assert (await client.get("/docs/runbooks/Nothing.md")).status == 404
    assert (await client.get("/docs/../page.html")).status == 404


async def test_a_host_that_is_not_allowed_gets_no_document(aiohttp_client, make_state):
    state = replace(make_state(), allowed_hosts=AllowedHosts.parse(["exporter.example.com"]))
    client = await aiohttp_client(create_app(state))
    answer = await client.get("/docs/explanation/semantics.md", headers={"Host": "evil.example"})
    assert answer.status == 421


async def test_the_metrics_cannot_take_the_path_of_a_document(make_state):
    with pytest.raises(UsageError, match="path of another page"):
        create_app(make_state(telemetry_path="/docs/metrics"))
