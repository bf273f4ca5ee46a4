"""docs/api.md names every page and parameter, and its answers are what the API answers.

``UPDATE_GOLDEN=1`` writes the answers anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest

from spec_decode_exporter.web.api.routes import ENDPOINTS

DOCUMENT = Path(__file__).parents[3] / "docs" / "api.md"
_EXAMPLE = re.compile(r"`(/api/v1/[^`\n]+)`:\n\n```json\n(.*?)\n```", re.DOTALL)


def written(answer):
    """JSON as the document has it: a field a line, lists in one."""
    text = json.dumps(answer, indent=2, ensure_ascii=False)
    return re.sub(
        r"\[[^][{}]*\]",
        lambda match: re.sub(r"\s+", " ", match[0]).replace("[ ", "[").replace(" ]", "]"),
        text,
    )


async def test_the_answers_are_true(client):
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
async def test_the_job_fails_unless_all_is_well(client, query, changes, passes):
    """The recipe to copy, over answers as they are and as they would be. `curl -f` writes nothing of an error."""
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


def test_every_page_is_named_with_its_parameters():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(/api/v1/[^`]+)` \|.*\| ?([^|]*?) ?\|$", text, re.MULTILINE)
    shown = {path: set(re.findall(r"`(\w+)`", parameters)) for path, parameters in rows}
    read = [endpoint for endpoint in ENDPOINTS if endpoint.body is None]
    assert shown == {endpoint.path: set(endpoint.query.model_fields) for endpoint in read}
    assert all(f"`POST {endpoint.path}`" in text for endpoint in ENDPOINTS if endpoint not in read)
