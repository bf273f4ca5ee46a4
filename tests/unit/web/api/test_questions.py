"""The requests of docs/guide/questions.md to the API, with their jq programs, work on real responses."""

from __future__ import annotations

import asyncio
import re
import shutil
from asyncio.subprocess import PIPE

import pytest

from tests.paths import CHECKOUT

PAGE = CHECKOUT / "docs" / "guide" / "questions.md"
REQUESTS = re.findall(
    r"^curl -s '?localhost:7732([^' ]+)'? \| jq ((?:-\w+ )?)'([^']+)'$",
    PAGE.read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_every_request_is_checked():
    assert len(REQUESTS) == len(re.findall(r"^curl ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) > 5


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize(("path", "flag", "program"), REQUESTS)
async def test_a_request_is_answered_and_its_program_reads_the_answer(client, path, flag, program):
    answer = await client.get(path)
    assert answer.status == 200
    jq = await asyncio.create_subprocess_exec(
        "jq", *flag.split(), program, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    _, problem = await jq.communicate(await answer.read())
    assert (jq.returncode, problem.decode()) == (0, "")
