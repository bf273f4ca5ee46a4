"""docs/reference/api.md lists every endpoint and parameter, and its examples are real responses.

``UPDATE_GOLDEN=1`` updates the examples.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE

import pytest

from spec_decode_exporter.web.api import ENDPOINTS
from tests.paths import CHECKOUT

DOCUMENT = CHECKOUT / "docs" / "reference" / "api.md"
_EXAMPLE = re.compile(r"`(/api/v1/[^`\n]+)`:\n\n```json\n(.*?)\n```", re.DOTALL)


def written(answer):
    """Format JSON as in the document: one field per line, flat lists in one line."""
    text = json.dumps(answer, indent=2, ensure_ascii=False)
    return re.sub(
        r"\[[^][{}]*\]",
        lambda match: re.sub(r"\s+", " ", match[0]).replace("[ ", "[").replace(" ]", "]"),
        text,
    )


async def test_the_examples_are_real_responses(client):
    text = DOCUMENT.read_text(encoding="utf-8")
    examples = _EXAMPLE.findall(text)
    assert len(examples) == 2
    for path, shown in examples:
        answer = await client.get(path)
        found = written(await answer.json(content_type=None))
        if os.environ.get("UPDATE_GOLDEN"):
            DOCUMENT.write_text(
                text := text.replace(f"`{path}`:\n\n```json\n{shown}\n", f"`{path}`:\n\n```json\n{found}\n")
            )
        else:
            assert shown == found


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize(
    ("query", "changes", "passes"),
    [
        ("match=zone=eu", {}, True),
        ("match=zone=eu", {"state": "unreachable"}, False),
        ("match=zone=eu", {"verdict": "harmful"}, False),
        ("match=zone=asia", {}, False),
        ("match=zon=eu", {}, False),
    ],
)
async def test_the_recipe_fails_a_job_unless_all_engines_are_healthy(client, query, changes, passes):
    """Run the recipe of the document on real and changed responses. `curl -f` writes no error response."""
    recipe = re.search(
        r"# Fail a job .*?jq (-\w+) '([^']+)'", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL
    )
    answer = await client.get(f"/api/v1/snapshot?{query}")
    body = ""
    if answer.status == 200:
        snapshot = await answer.json()
        for engine in snapshot["engines"]:
            engine.update(changes)
        body = json.dumps(snapshot)
    jq = await asyncio.create_subprocess_exec(
        "jq", *recipe.groups(), stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL
    )
    await jq.communicate(body.encode())
    assert (jq.returncode == 0) == passes


def test_every_endpoint_is_listed_with_its_parameters():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(/api/v1/[^`]+)` \|.*\| ?([^|]*?) ?\|$", text, re.MULTILINE)
    shown = {path: set(re.findall(r"`(\w+)`", parameters)) for path, parameters in rows}
    read = [endpoint for endpoint in ENDPOINTS if endpoint.body is None]
    assert shown == {endpoint.path: {each.name for each in endpoint.parameters} for endpoint in read}
    assert all(f"`POST {endpoint.path}`" in text for endpoint in ENDPOINTS if endpoint not in read)
