"""The middleware in a real vLLM: its records equal the server's counters, and clients see no difference."""

import http.client
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from clients import PROMPTS, Load, Truth, drive, of_response
from inside import FLAGS, PLAIN_FLAGS, counted, receiving
from process import HOST
from vllm_server import MODEL, NGRAM, vllm
from watch import page_of

from tests.e2e.conftest import eventually

RUNNING = "vllm:num_requests_running"
VOLATILE = re.compile(
    rb'"(?:id|created|time_to_first_token_ms|generation_time_ms|queue_time_ms|mean_itl_ms|tokens_per_second)":'
    rb'(?:"[^"]*"|[0-9.e+-]+|null)'
)


@pytest.fixture(scope="module")
def watched():
    """A server whose requests are reported, and who receives their records."""
    with (
        receiving() as receiver,
        vllm("inside", *NGRAM, *FLAGS, more_environment=receiver.environment) as server,
    ):
        yield server, receiver


def ask(server, path, body, **headers):
    """Return status, headers and body."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=120)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    named = {name.lower(): value for name, value in answer.getheaders()}
    text = answer.read()
    connection.close()
    return answer.status, named, text


def both_kinds(prompt, temperature, **more):
    """Return path and body of a completion, and those of a conversation with the same prompt."""
    common = {"model": MODEL, "max_tokens": 24, "temperature": temperature, "seed": 7, **more}
    messages = [{"role": "user", "content": prompt}]
    return (
        ("/v1/completions", {"prompt": prompt, **common}),
        ("/v1/chat/completions", {"messages": messages, **common}),
    )


STREAM = {"stream": True}
COMPLETION = {"model": MODEL, "prompt": PROMPTS[0], "max_tokens": 24, "temperature": 0, "seed": 7}
KINDS = [
    *(
        kind
        for prompt in PROMPTS[:3]
        for more in ({}, STREAM, {**STREAM, "stream_options": {"include_usage": True}})
        for kind in both_kinds(prompt, 0, **more)
    ),
    ("/v1/completions", {**COMPLETION, "n": 2}),
    ("/v1/completions", {**COMPLETION, "prompt": PROMPTS[:2]}),
    ("/v1/completions", {**COMPLETION, "logprobs": 5}),
    ("/v1/completions", {**COMPLETION, "temperature": "warm"}),
    ("/v1/completions", {"model": "another", "prompt": "x"}),
    ("/v1/completions", {}),
]
"""Requests of every kind that vLLM answers twice alike, and some that it refuses."""


def test_responses_are_the_same_byte_for_byte_with_and_without_it(watched, remark):
    compared = 0
    with vllm("outside", *NGRAM, *PLAIN_FLAGS) as plain:
        for path, body in KINDS:
            (status, headers, text), (status_without, headers_without, text_without) = (
                ask(server, path, body) for server in (watched[0], plain)
            )
            assert status == status_without
            varying = {"date", "content-length"}  # the length is that of the times in it
            assert headers.keys() == headers_without.keys()
            assert {k: v for k, v in headers.items() if k not in varying} == {
                k: v for k, v in headers_without.items() if k not in varying
            }
            fixed = same_for_all(text)
            assert fixed == same_for_all(text_without)
            compared += len(fixed)
    remark(f"inside: {len(KINDS)} answers, {compared} bytes, the same with and without the middleware")


def same_for_all(text):
    """Return an answer without names and times. vLLM itself puts a stream's tokens into events as they come."""
    lines = text.split(b"\n\n")
    if not lines[0].startswith(b"data: {"):
        return VOLATILE.sub(b"", lines[0])
    *tokens, last, done, rest = lines
    choices = [choice for line in tokens for choice in json.loads(line[6:])["choices"]]
    texts = [choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices]
    return b"".join(["".join(texts).encode(), VOLATILE.sub(b"", last), done, rest])


def test_what_it_sends_is_what_the_responses_say_and_what_the_server_counted(watched, remark):
    """Requests with and without streams, for each temperature; the server has no other clients."""
    server, receiver = watched
    settle(server, receiver)
    del receiver.records[:]
    before = counted(server.url)
    for temperature in (0.0, 1.0):
        drive(server.url, Load(temperature, seconds=5))
    kinds = [kind for prompt in PROMPTS for kind in both_kinds(prompt, 0.5, stream=True)] * 3
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda kind: ask(server, *kind, **{"x-request-type": "streamed"}), kinds))
    check_sums(server, receiver, before)
    streamed = [record for record in receiver.records if record.get("request_type") == "streamed"]
    assert all(record["stream"] and record["temperature"] == 0.5 for record in streamed)
    said = []
    for _, _, text in answers:
        *_, last, done, rest = text.decode().split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        metrics = json.loads(last.removeprefix("data: "))["metrics"]
        said.append({name: value for name, value in metrics.items() if value is not None})
    assert sorted(json.dumps(record["metrics"], sort_keys=True) for record in streamed) == sorted(
        json.dumps(metrics, sort_keys=True) for metrics in said
    )
    truths = dict.fromkeys((0.0, 0.5, 1.0), Truth())
    for record in receiver.records:
        truths[record["temperature"]] += of_response(record)
    by_temperature = {temperature: truth.acceptance for temperature, truth in truths.items()}
    assert by_temperature[0.0] > by_temperature[1.0]
    remark(f"inside: {len(receiver.records)} records, sums as the server's; by temperature {by_temperature}")


def settle(server, receiver):
    """Wait until every answer that has metrics is there: two rounds of the middleware's without a new one."""
    seen = [-1, -2]

    def quiet():
        seen.append(len(receiver.records))
        return seen[-1] == seen[-2] == seen[-3] and page_of(server.url).sum(RUNNING) == 0

    eventually(quiet, what="an end of the records", every=1.5)


def check_sums(server, receiver, before):
    """Wait for the records of all answers; their sums are what the server has counted."""
    settle(server, receiver)
    now = counted(server.url)
    expected = {name: now[name] - before[name] for name in now}
    eventually(
        lambda: (
            sum(record["usage"]["completion_tokens"] for record in list(receiver.records))
            >= expected["generation_tokens"]
        ),
        what="all records",
    )
    truth = sum(map(of_response, receiver.records), Truth())
    assert {name: getattr(truth, name) for name in now} == expected
    assert truth.requests == len(receiver.records) > 0


def test_a_client_that_leaves_stops_its_generation(watched, remark):
    server, receiver = watched
    settle(server, receiver)
    del receiver.records[:]
    before = counted(server.url)["generation_tokens"]
    for stream in (True, False):
        body = {**COMPLETION, "temperature": 1, "max_tokens": 900, "ignore_eos": True, "stream": stream}
        connection = http.client.HTTPConnection(HOST, server.port, timeout=120)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        connected = connection.sock
        if stream:
            assert connection.getresponse().fp.readline()
        eventually(lambda: page_of(server.url).sum(RUNNING) == 1, what="a request that runs", every=0.02)
        connected.shutdown(socket.SHUT_RDWR)
        connection.close()
        eventually(lambda: page_of(server.url).sum(RUNNING) == 0, what="an end of the generation", every=0.02)
    settle(server, receiver)
    assert receiver.records == []
    generated = counted(server.url)["generation_tokens"] - before
    assert generated < 900  # of 1800 that were asked for; vLLM counts no aborted requests
    remark(f"inside: two clients left, {generated:.0f} of 1800 tokens were generated")


def test_with_several_api_servers_each_sends_its_own(remark):
    with (
        receiving() as receiver,
        vllm(
            "inside-two", *NGRAM, *FLAGS, "--api-server-count", "2", more_environment=receiver.environment
        ) as server,
    ):
        before = counted(server.url)
        drive(server.url, Load(0.0, seconds=5, at_once=6))
        check_sums(server, receiver, before)
        remark(f"inside: {len(receiver.records)} records of two API servers, sums as the server's")
