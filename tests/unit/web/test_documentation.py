"""Documentation and files under ``/docs/``, their HTML, and the wheel that holds them."""

import posixpath
import re

import pytest
from yarl import URL

from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.documentation import rendered, served
from tests.unit.web.plain_state import plain_state

FILES = [path for path in served() if path.startswith("files/")]
PAGES = ["/docs/", "/docs/files/", *(f"/docs/{path}" for path in served() if path not in FILES)]


@pytest.fixture
async def client(aiohttp_client):
    return await aiohttp_client(create_app(plain_state()))


async def test_every_document_is_html_and_all_its_links_and_anchors_lead_somewhere(client):
    plain, pages = await client.get("/"), {}
    assert len(PAGES) > 40
    for path in PAGES:
        answer = await client.get(path)
        pages[path] = text = await answer.text()
        assert (answer.status, answer.content_type) == (200, "text/html"), path
        for header in ("Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options"):
            assert answer.headers[header] == plain.headers[header]
        assert not re.search(r"<script|<img|style=|javascript:|&amp;(lt|gt|quot|amp);", text), path
    broken = []
    for path, html in pages.items():
        for href in re.findall(r'href="(?!https?:)([^"]+)"', html):
            file, _, anchor = href.partition("#")
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            goal = goal if goal in pages else f"{goal}/"
            if goal in pages and (not anchor or f'id="{anchor}"' in pages[goal]):
                continue
            if (await client.get(goal.rstrip("/") or "/")).status != 200:
                broken.append((path, href))
    assert broken == []


async def test_the_index_names_every_document_and_is_found_behind_any_proxy(client):
    index = await (await client.get("/docs/")).text()
    documents = [path for path in served() if path not in FILES and path != "README.md"]
    assert [path for path in documents if f'href="{path}"' not in index] == []
    assert "<title>Documentation</title>" in index
    answer = await client.get("/docs", allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (301, "docs/")


async def test_alerts_rules_dashboards_and_the_middleware_are_listed_and_downloaded_as_they_are(client):
    listed = await (await client.get("/docs/files/")).text()
    assert {"alerts", "rules", "dashboards"} <= {path.split("/")[1] for path in FILES if path.count("/") > 1}
    for path in FILES:
        assert f'href="{path.removeprefix("files/")}"' in listed
        answer = await client.get(f"/docs/{path}")
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{posixpath.basename(path)}"'
        assert await answer.read() == served()[path].read_bytes()


OTHERS = (
    "runbooks/Nothing.md ../page.html %2e%2e/pyproject.toml ..%2fpyproject.toml %2fetc%2fpasswd guide guide/ "
    "guide/../guide/alerts.md guide%00/alerts.md maintainers/development.md files/../README.md "
    "files/prometheus/tests"
)


@pytest.mark.parametrize("path", OTHERS.split())
async def test_any_other_path_is_not_found(client, path):
    url = URL(f"http://{client.host}:{client.port}/docs/{path}", encoded=True)  # no client normalises it
    async with client.session.get(url) as answer:
        assert answer.status == 404


SERVED = frozenset({"semantics.md", "runbooks/A.md", "files/rules/arms.yml", "files/dashboards/a.json"})


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("[a](../semantics.md#x)", '<p><a href="../semantics.md#x">a</a></p>\n'),
        ("[a](../maintainers/x.md) and [b](A.md)", '<p>a and <a href="A.md">b</a></p>\n'),
        ("[a](../../config/prometheus/rules/arms.yml)", '<p><a href="../files/rules/arms.yml">a</a></p>\n'),
        ("[a](//evil.example/semantics.md)", "<p>a</p>\n"),
        ("![a](x.png)", "<p></p>\n"),
        ("<script>a</script>", "<p>&lt;script&gt;a&lt;/script&gt;</p>\n"),
        ("[a](javascript:alert)", "<p>[a](javascript:alert)</p>\n"),
        ('[a](A.md "x\\"><b>")', '<p><a href="A.md" title="x&quot;&gt;&lt;b&gt;">a</a></p>\n'),
        ("## Does it `pay`, really?", '<h2 id="does-it-pay-really">Does it <code>pay</code>, really?</h2>\n'),
        ("## a\n## a", '<h2 id="a">a</h2>\n<h2 id="a-1">a</h2>\n'),
    ],
)
def test_links_to_served_files_are_kept_and_html_is_shown(text, html):
    assert rendered(text, "runbooks/B.md", SERVED).content == html
