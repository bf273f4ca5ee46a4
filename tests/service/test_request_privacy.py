"""Prompts, outputs and users are nowhere in the exporter, in any format of a request."""

from __future__ import annotations

import gc
import json

import aiohttp
import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.load import load
from spec_decode_exporter.web.server import parse_listen_address
from tests.unit.requests.test_record import RECORD, SPECULATION, changed

SECRET = "grandmothers-pancakes"
USER = "ann-smith-of-leeds"
PAGES = (
    "",
    "fragment",
    "metrics",
    "config",
    "api/v1/requests",
    "api/v1/snapshot",
    "api/v1/events",
    "api/v1/targets",
)
RESPONSE = {
    **RECORD,
    "user": USER,
    "id": SECRET,
    "prompt": SECRET,
    "messages": [{"role": "user", "content": SECRET}],
    "choices": [{"message": {"content": SECRET}, "logprobs": {SECRET: [1, 2]}, "token_ids": [SECRET]}],
    SECRET: SECRET,
    "metrics": {**RECORD["metrics"], SECRET: SECRET},
    "usage": {**RECORD["usage"], SECRET: SECRET},
}
WRONG = [
    changed("stream", SECRET),
    changed("n", SECRET),
    changed("temperature", SECRET),
    changed("metrics", SECRET),
    changed(SPECULATION, [SECRET]),
    changed(f"{SPECULATION}.num_spec_steps", SECRET),
    changed(f"{SPECULATION}.acceptance_histogram", [SECRET]),
    changed("model", f"{SECRET}\n"),
    changed("request_type", [SECRET]),
    changed("target", SECRET * 100),
    SECRET,
    {SECRET: SECRET},
]
BODIES = [
    json.dumps(RESPONSE),
    json.dumps(WRONG),
    "\n".join([json.dumps(RESPONSE), SECRET, f'{{"{SECRET}": 1, "{SECRET}": 2}}']),
    f'{{"prompt": "{SECRET}',
    f'["{SECRET}",',
    f'"{SECRET}" {SECRET}',
    SECRET,
]


@pytest.fixture
async def service(tmp_path, clock):
    file, salt, state = (tmp_path / name for name in ("exporter.yml", "salt", "state.json"))
    salt.write_text("0123456789abcdef")
    file.write_text(
        f"discovery: {{files: [{tmp_path}/none.yml]}}\nstate: {{file: {state}}}\n"
        f"requests: {{ingest: true, users: {{salt_file: {salt}}}}}\n"
    )
    service = Service(lambda: load(file, environ={}), Options([parse_listen_address("127.0.0.1:0")]), clock)
    await service.start()
    yield service
    await service.close()


async def test_no_prompt_or_user_is_exported_logged_or_stored(service, tmp_path):
    with capture_logs() as logged:
        async with aiohttp.ClientSession() as session:
            told = []
            for body in BODIES:
                for content_type in ("application/json", "application/x-ndjson", "text/plain"):
                    sent = {"data": body.encode(), "headers": {"Content-Type": content_type}}
                    async with session.post(f"{service.urls[0]}api/v1/requests", **sent) as answer:
                        told.append(await answer.text())
            pages = {}
            for page in PAGES:
                async with session.get(service.urls[0] + page) as answer:
                    assert answer.status == 200, page
                    pages[page] = await answer.text()
    await service.close()
    # The response three times: alone as JSON, as a line, and among lines, which count as lines as JSON too.
    assert json.loads(pages["api/v1/requests"])["taken"] == 4
    assert json.loads(pages["api/v1/requests"])["users"][0]["user"]
    kept = "".join(path.read_text() for path in tmp_path.iterdir() if path.name != "salt")
    for text in (*told, *pages.values(), str(logged), kept):
        assert SECRET not in text
        assert USER not in text


async def test_no_prompt_or_user_stays_in_memory(service):
    secret, user = SECRET[::-1], USER[::-1]
    body = json.dumps(RESPONSE).replace(SECRET, secret).replace(USER, user)
    async with aiohttp.ClientSession() as session:
        headers = {"Content-Type": "application/json"}
        async with session.post(f"{service.urls[0]}api/v1/requests", data=body, headers=headers) as answer:
            assert (await answer.json())["taken"] == 1
    found = service.state.receiver()._store
    gc.collect()
    seen, open_ = set(), [found]
    while open_:
        each = open_.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        seen.add(id(each))
        if isinstance(each, str):
            assert secret not in each
            assert user not in each
        open_.extend(gc.get_referents(each))
    assert len(seen) > 50


def test_the_searched_texts_are_in_the_sent_requests():
    assert all(SECRET in body for body in BODIES)
    assert RESPONSE["user"] == USER
