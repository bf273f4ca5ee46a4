"""The middleware in a real vLLM: its records equal the server's counters, and clients see no difference."""

import http.client
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from clients import PROMPTS, Load, Truth, drive, of_response
from inside import FLAGS, PLAIN_FLAGS, Receiver, counted
from process import HOST
from vllm_server import MODEL, ngram, vllm
from watch import page_of

from tests.e2e.conftest import eventually

VOLATILE = re.compile(
    rb'"(?:id|created|time_to_first_token_ms|generation_time_ms|queue_time_ms|mean_itl_ms|tokens_per_second)":'
    rb'(?:"[^"]*"|[0-9.e+-]+|null)'
)


@pytest.fixture(scope="module")
def receiver():
    with Receiver().serving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def watched(receiver):
    """One whose requests are reported."""
    with vllm("inside", *ngram(4), *FLAGS, more_environment=receiver.environment) as server:
        yield server


@pytest.fixture(scope="module")
def plain():
    """One without the middleware, and else the same."""
    with vllm("outside", *ngram(4), *PLAIN_FLAGS) as server:
        yield server


def ask(server, path, body, headers=()):
    """Return status, headers and body; a body in chunks as the list of them, each as the server sent it."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=120)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **dict(headers)})
    answer = connection.getresponse()
    named = {name.lower(): value for name, value in answer.getheaders()}
    chunks = list(chunks_of(answer)) if answer.chunked else [answer.read()]
    connection.close()
    return answer.status, named, chunks


def chunks_of(answer):
    """Read a body as it is on the wire: the chunks are the server's own."""
    while size := int(answer.fp.readline(), 16):
        yield answer.fp.read(size)
        answer.fp.readline()


def completion(prompt, temperature, **more):
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 24, "temperature": temperature, "seed": 7}
    return "/v1/completions", {**body, **more}


def conversation(prompt, temperature, **more):
    messages = [{"role": "user", "content": prompt}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 24, "temperature": temperature, "seed": 7}
    return "/v1/chat/completions", {**body, **more}


def all_kinds():
    """Requests of every kind that vLLM answers twice alike, and some that it refuses."""
    for prompt in PROMPTS[:3]:
        for more in ({}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}):
            yield completion(prompt, 0, **more)
            yield conversation(prompt, 0, **more)
    yield completion(PROMPTS[0], 0, n=2)
    yield completion([PROMPTS[0], PROMPTS[1]], 0)
    yield completion(PROMPTS[0], 0, logprobs=5)
    yield completion(PROMPTS[0], "warm")
    yield "/v1/completions", {"model": "another", "prompt": "x"}
    yield "/v1/completions", {}


def test_responses_are_the_same_byte_for_byte_with_and_without_it(watched, plain, remark):
    kinds = list(all_kinds())
    compared = 0
    for path, body in kinds:
        (status, headers, chunks), (status_without, headers_without, chunks_without) = (
            ask(server, path, body) for server in (watched, plain)
        )
        assert status == status_without
        varying = {"date", "content-length"}  # the length is that of the times in it
        assert headers.keys() == headers_without.keys()
        assert {k: v for k, v in headers.items() if k not in varying} == {
            k: v for k, v in headers_without.items() if k not in varying
        }
        fixed = same_for_all(chunks)
        assert fixed == same_for_all(chunks_without)
        compared += len(fixed)
    remark(f"inside: {len(kinds)} answers, {compared} bytes, the same with and without the middleware")


def same_for_all(chunks):
    """Return an answer without names and times. vLLM itself puts a stream's tokens into events as they come."""
    lines = b"".join(chunks).split(b"\n\n")
    if not lines[0].startswith(b"data: {"):
        return VOLATILE.sub(b"", lines[0])
    *tokens, last, done, rest = lines
    choices = [choice for line in tokens for choice in json.loads(line[6:])["choices"]]
    texts = [choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices]
    return b"".join(["".join(texts).encode(), VOLATILE.sub(b"", last), done, rest])


def stream_usage(chunks):
    """Return the last event of a stream, which says what a response says."""
    *_, last, done = b"".join(chunks).decode().split("\n\n")[:-1]
    assert done == "data: [DONE]"
    return json.loads(last.removeprefix("data: "))


def test_what_it_sends_is_what_the_responses_say_and_what_the_server_counted(watched, receiver, remark):
    """Requests with and without streams, for each temperature; the server has no other clients."""
    settle(watched, receiver)
    del receiver.records[:]
    before = counted(watched.url)
    for temperature in (0.0, 1.0):
        drive(watched.url, Load(temperature, seconds=5))
    headers = {"x-request-type": "streamed"}
    kinds = [kind(prompt, 0.5, stream=True) for prompt in PROMPTS for kind in (completion, conversation)] * 3
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda kind: ask(watched, *kind, headers.items()), kinds))
    settle(watched, receiver)
    check_sums(watched, receiver, before)
    streamed = [record for record in receiver.records if record.get("request_type") == "streamed"]
    assert all(record["stream"] and record["temperature"] == 0.5 for record in streamed)
    said = [stream_usage(chunks)["metrics"] for _, _, chunks in answers]
    assert sorted(json.dumps(record["metrics"], sort_keys=True) for record in streamed) == sorted(
        json.dumps(without_none(one), sort_keys=True) for one in said
    )
    by_temperature = {
        temperature: total_of(receiver, temperature).acceptance for temperature in (0.0, 0.5, 1.0)
    }
    assert by_temperature[0.0] > by_temperature[1.0]
    remark(f"inside: {len(receiver.records)} records, sums as the server's; by temperature {by_temperature}")


def without_none(metrics):
    return {name: value for name, value in metrics.items() if value is not None}


def total_of(receiver, temperature):
    records = [record for record in receiver.records if record["temperature"] == temperature]
    return sum(map(of_response, records), Truth())


def settle(server, receiver):
    """Wait until every answer that has metrics is there: two rounds of the middleware's without a new one."""
    seen = [-1, -2]

    def quiet():
        seen.append(len(receiver.records))
        return seen[-1] == seen[-2] == seen[-3] and running(server) == 0

    eventually(quiet, what="an end of the records", every=1.5)


def running(server):
    return sum(each.value for each in page_of(server.url).find("vllm:num_requests_running"))


def check_sums(server, receiver, before):
    now = counted(server.url)
    expected = {name: now[name] - before[name] for name in now}

    def sums():
        truth = receiver.truth()
        return {name: getattr(truth, name) for name in now}

    eventually(lambda: sums()["generation_tokens"] >= expected["generation_tokens"], what="all records")
    assert sums() == expected
    assert receiver.truth().requests == len(receiver.records) > 0


def test_a_client_that_leaves_stops_its_generation(watched, receiver, remark):
    settle(watched, receiver)
    del receiver.records[:]
    before = counted(watched.url)["generation_tokens"]
    for stream in (True, False):
        path, body = completion(PROMPTS[0], 1, max_tokens=900, ignore_eos=True, stream=stream)
        connection = http.client.HTTPConnection(HOST, watched.port, timeout=120)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        connected = connection.sock
        if stream:
            assert connection.getresponse().fp.readline()
        eventually(lambda: running(watched) == 1, what="a request that runs", every=0.02)
        connected.shutdown(socket.SHUT_RDWR)
        connection.close()
        eventually(lambda: running(watched) == 0, what="an end of the generation", every=0.02)
    settle(watched, receiver)
    assert receiver.records == []
    generated = counted(watched.url)["generation_tokens"] - before
    assert generated < 900  # of 1800 that were asked for; vLLM counts no aborted requests
    remark(f"inside: two clients left, {generated:.0f} of 1800 tokens were generated")


def test_with_several_api_servers_each_sends_its_own(remark):
    with (
        Receiver().serving() as receiver,
        vllm(
            "inside-two", *ngram(4), *FLAGS, "--api-server-count", "2", more_environment=receiver.environment
        ) as server,
    ):
        before = counted(server.url)
        drive(server.url, Load(0.0, seconds=5, at_once=6))
        settle(server, receiver)
        check_sums(server, receiver, before)
        remark(f"inside: {len(receiver.records)} records of two API servers, sums as the server's")
