"""Lists of targets, pods, and the files that are read as a whole: at their bounds, and just beyond them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from exporter.config.http_settings import Authorization, HttpSettings
from exporter.config.kubernetes_settings import KubernetesDiscovery
from exporter.config.load import load
from exporter.config.problem import ConfigError
from exporter.config.schema import HttpDiscovery, Scrape
from exporter.config.tree import LARGEST as LARGEST_YAML
from exporter.config.values import LARGEST_SECRET
from exporter.config.yaml_loader import MOST_NODES, MOST_NODES_OF_A_LIST, MOST_NODES_OF_AN_ITEM, MOST_TEXT
from exporter.plan import checkpoint
from exporter.plan.configuration import ModelError
from exporter.reference import file as reference
from exporter.scrape.credentials import headers
from exporter.scrape.errors import PollError
from exporter.sealed import Seal
from exporter.state_file import LARGEST as LARGEST_STATE
from exporter.state_file import MOST_VALUES as MOST_STATE_VALUES
from exporter.state_file import StateFile
from exporter.targets.file_sd import MOST_BYTES_TOGETHER, MOST_FILES, FileDiscovery
from exporter.targets.group_reader import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_GROUP_LABELS,
    MOST_GROUPS,
    MOST_LABELS,
    MOST_TARGETS,
)
from exporter.targets.groups import MOST_URL_CHARACTERS
from exporter.targets.http_sd import HttpListDiscovery
from exporter.targets.kubernetes import MOST_PODS, PodDiscovery
from exporter.targets.kubernetes_api import LARGEST_PAGE, LONGEST_LINE
from exporter.targets.kubernetes_objects import MOST_CHARACTERS as MOST_POD_CHARACTERS
from exporter.targets.protocol import DiscoveryError
from exporter.web.security.load import read_web_config
from tests.hostile.row import Read, RejectedError, Row

_MIB: Final = 2**20
_LIST_ITEMS: Final = (
    f"{MOST_GROUPS:,} groups, {MOST_TARGETS:,} targets, {MOST_GROUP_LABELS} labels of a group and "
    f"{MOST_LABELS:,} of all"
)
_NO_LIST: Final = "the list is rejected, its targets stay: `discovery_failed`, once by reason"
_ENTRIES: Final = "the hosts of its entries"
_HOLDER: Final = "whoever writes the file"
_THREAD: Final = "beside the event loop; no call holds it up for more than a few milliseconds"

Server = Callable[[web.Request], Awaitable[web.StreamResponse]]


def filled(begin: bytes, unit: bytes, end: bytes, size: int = MOST_BYTES) -> Callable[[], bytes]:
    """Return what repeats ``unit`` until there are ``size`` bytes, and then spaces."""
    return lambda: (begin + unit * ((size - len(begin) - len(end)) // len(unit)) + end).ljust(size)


def _json(value: Callable[[], object]) -> Callable[[], bytes]:
    return lambda: json.dumps(value(), separators=(",", ":")).encode()


def _repeated(text: str, number: int) -> Callable[[], bytes]:
    return (text * number).encode


def _hosts(number: int) -> list[str]:
    return [f"host{place}.test:8000" for place in range(number)]


def _group_of_all() -> list[object]:
    labels = {f"label{number:02}": "v" * 1024 for number in range(64)}
    return [{"targets": _hosts(MOST_TARGETS), "labels": labels}]


def _groups_of_one(labels: int = MOST_LABELS // MOST_GROUPS) -> list[object]:
    return [
        {"targets": [host], "labels": {f"l{place}": f"{number}-{place}" for place in range(labels)}}
        for number, host in enumerate(_hosts(MOST_GROUPS))
    ]


def _yaml_groups(groups: list[Any]) -> bytes:
    """Write groups as YAML, which takes JSON for a flow."""
    return "".join(f"- {json.dumps(group)}\n" for group in groups).encode()


@asynccontextmanager
async def _served(answer: Server) -> Any:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("/"))
    finally:
        await server.close()


async def _http_list(data: bytes) -> object:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=data, content_type="application/json")

    async with _served(answer) as url:
        try:
            return await HttpListDiscovery(HttpDiscovery(url=url), Scrape()).targets()
        except DiscoveryError as error:
            raise RejectedError(str(error)) from None


def _file_list(suffix: str) -> Read:
    async def read(data: bytes) -> object:
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"list{suffix}"
            path.write_bytes(data)
            try:
                return await FileDiscovery(path, Scrape()).targets()
            except DiscoveryError as error:
                raise RejectedError(str(error)) from None

    return read


def _in_file(read: Callable[[Path], object], *errors: type[Exception], name: str = "file") -> Read:
    """Return what gives the bytes to ``read`` as a file, in a thread as in the program."""

    async def read_file(data: bytes) -> object:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            try:
                return await asyncio.to_thread(read, path)
            except errors as error:
                raise RejectedError(str(error)) from None

    return read_file


def _state(path: Path) -> object:
    with capture_logs() as logs:
        found = StateFile(path).load()
    if logs:
        raise RejectedError(str(logs[0]["reason"]))
    return found


def _secret(path: Path) -> object:
    return headers(HttpSettings(authorization=Authorization(credentials_file=path)))


def _safetensors(path: Path) -> object:
    (path.parent / "config.json").write_text(json.dumps(_MODEL))
    return checkpoint.model_of(str(path.parent), None, None)


_MODEL: Final = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


def _pod(name: str, **more: object) -> dict[str, object]:
    metadata = {"name": name, "namespace": "n", **more}
    return {"metadata": metadata, "status": {"phase": "Running", "podIP": "10.0.0.1"}}


def _pods(data: bytes, events: bytes) -> Server:
    """Return an API server with a list of pods and the events of a watch."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=events if "watch" in request.query else data)

    return answer


def _discovery(url: str) -> PodDiscovery:
    settings = KubernetesDiscovery(api_server=url, namespaces=("n",), annotations={"note": "note"})
    return PodDiscovery("n", settings, Scrape())


_EMPTY: Final = b'{"metadata":{"resourceVersion":"1"},"items":[]}'


async def _pod_list(data: bytes) -> object:
    async with _served(_pods(data, b"")) as url:
        try:
            return await _discovery(url).targets()
        except DiscoveryError as error:
            raise RejectedError(str(error)) from None


async def _pod_events(data: bytes) -> object:
    """Watch the bytes, and then the event of a new pod, which ends the look."""
    last = json.dumps({"type": "ADDED", "object": _pod("last")}).encode()
    async with _served(_pods(_EMPTY, data + b"\n" + last + b"\n")) as url:
        found = _discovery(url)
        try:
            await found.targets()
            return await found.targets()
        except DiscoveryError as error:
            raise RejectedError(str(error)) from None


def _list(begin: bytes, unit: bytes, end: bytes) -> Callable[[], bytes]:
    head = b'{"metadata":{"resourceVersion":"1"},"items":['
    return filled(head + begin, unit, end + b"]}", LARGEST_PAGE)


_BEGIN_OF_POD: Final = json.dumps(_pod("p"))[:-1].encode()

_JSON_WORST: Final = {
    "one group with every target, 64 labels of 1,024 characters": _json(_group_of_all),
    "a group for every target, with as many labels as a list may have": _json(_groups_of_one),
    "groups without anything": _json(lambda: [{}] * MOST_GROUPS),
    "nothing but spaces": filled(b"[", b" ", b"]"),
    "escapes": _json(lambda: [{"labels": {f"l{n}": "\0" * (MOST_CHARACTERS // 6 - 9) for n in range(200)}}]),
    "texts of the longest kind": _json(
        lambda: [{"labels": {f"l{n}": "x" * (MOST_CHARACTERS - 9) for n in range(250)}}]
    ),
}

_JSON_BEYOND: Final = {
    "bytes": filled(b"[", b" ", b"]", MOST_BYTES + 1),
    "groups": _json(lambda: [{}] * (MOST_GROUPS + 1)),
    "bytes full of empty groups": filled(b"[", b"{},", b"{}]"),
    "bytes full of empty lists": filled(b"[", b"[],", b"[]]"),
    "bytes full of lists in a target": filled(b'[{"targets":[[', b"[],", b"[]]]}]"),
    "targets": _json(lambda: [{"targets": ["a:1"] * (MOST_TARGETS + 1)}]),
    "targets of all groups": _json(lambda: [{"targets": ["a:1"] * 9}] * (MOST_TARGETS // 9 + 1)),
    "labels of a group": _json(lambda: [{"labels": {f"l{n}": "" for n in range(MOST_GROUP_LABELS + 1)}}]),
    "labels": _json(lambda: _groups_of_one(MOST_LABELS // MOST_GROUPS + 1)),
    "characters of all URLs": _json(
        lambda: [{"targets": _hosts(MOST_TARGETS), "labels": {"__metrics_path__": "x" * 1000}}]
    ),
    "characters of a text": _json(lambda: [{"targets": ["x" * MOST_CHARACTERS]}]),
    "one text": filled(b'["', b"x", b'"]'),
    "one text of escapes": filled(b'["', b"\\u0000", b'"]'),
    "one number": filled(b"[", b"9", b"]"),
    "one fraction": filled(b"[0.", b"9", b"]"),
    "nesting": filled(b"", b"[", b""),
    "nesting of mappings": filled(b"[", b'{"a":', b""),
    "keys that are there twice": filled(b'[{"labels":{', b'"a":"b",', b'"a":"b"}}]'),
}

_YAML_WORST: Final = {
    "one group with every target, 64 labels of 1,024 characters": lambda: _yaml_groups(_group_of_all()),
    "a group for every target, with as many labels as a list may have": lambda: _yaml_groups(
        _groups_of_one()
    ),
    "groups without anything": _repeated("- {}\n", MOST_GROUPS),
    "a comment": filled(b"# ", b"x ", b""),
    "empty lines": filled(b"", b"\n", b"[]"),
    "anchors": lambda: b"".join(b"- &a%d {}\n" % number for number in range(MOST_GROUPS)),
    "a long text": lambda: b"- {labels: {a: '" + b"x " * (MOST_TEXT // 2 - 2100) + b"'}}",
}

_YAML_BEYOND: Final = {
    "bytes": filled(b"# ", b"x", b"", MOST_BYTES + 1),
    "groups": _repeated("- {}\n", MOST_GROUPS + 1),
    "bytes full of empty groups": filled(b"", b"- {}\n", b""),
    "bytes full of empty lists": filled(b"[", b"[],", b"[]]"),
    "values of a group": _repeated("- [" + "x," * MOST_NODES_OF_AN_ITEM + "]", 1),
    "values in groups with anchors": lambda: b"".join(
        b"- &a%d {targets: [%s]}\n" % (number, b"a:1," * 900) for number in range(18)
    ),
    "values of a list": lambda: _yaml_groups(_groups_of_one(MOST_NODES_OF_A_LIST // MOST_GROUPS // 2)),
    "targets that aliases repeat": _repeated("- &g {targets: [" + "a:1," * 500 + "]}\n" + "- *g\n" * 50, 1),
    "values that merges repeat": lambda: (
        b"- &g {labels: {"
        + b",".join(b"l%d: x" % number for number in range(200))
        + b"}}\n"
        + b"- {<<: [*g, *g, *g, *g, *g, *g, *g, *g]}\n" * 100
    ),
    "a text without quotes": filled(b"- ", b"x", b""),
    "a text in quotes": filled(b"- '", b"xx ", b"'"),
    "a text of escapes": filled(b'- "', b"\\0", b'"'),
    "a text in lines": filled(b"- |\n", b"  xx\n", b""),
    "nesting": filled(b"", b"[", b""),
    "tags": filled(b"- [", b"!x a,", b"]"),
    "directives": lambda: b"".join(b"%%TAG !a%d! b\n" % number for number in range(10_000)) + b"---\n- {}",
    "keys that are there twice": filled(b"- {", b"a: b,", b"}"),
}


def _targets(number: int) -> bytes:
    return b"targets:\n" + b"".join(b"- url: http://h%d:1\n" % place for place in range(number))


def _users(number: int) -> bytes:
    line = b"  user%d: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi\n"
    return b"basic_auth_users:\n" + b"".join(line % place for place in range(number))


_TREE_BEYOND: Final = {
    "bytes": filled(b"# ", b"x", b"", LARGEST_YAML + 1),
    "values": lambda: b"targets: [" + b"{}," * MOST_NODES + b"]",
    "a text": lambda: b"a: '" + b"x " * MOST_TEXT + b"'",
    "nesting": filled(b"", b"[", b""),
    "mistakes": lambda: b"targets: [" + b"x," * (MOST_NODES // 2) + b"]",
    "unknown keys": lambda: b"".join(b"k%d: x\n" % number for number in range(MOST_NODES // 2 - 1)),
}

_REFERENCE: Final = Seal("spec-decode-exporter reference", 1, "")
_STATE: Final = Seal("spec-decode-exporter state", 1, "")


def _reference(engines: int) -> bytes:
    measurement = {
        "seconds": 1.0,
        "polls": 1,
        "counts": {f"counter{number}": number for number in range(100)},
        "position_accepted_tokens": [],
        "quantities": {"draft_acceptance_ratio": {"value": 0.5, "lower": 0.4, "upper": 0.6}},
        "position_acceptance_ratio": [],
        "position_conditional_acceptance_ratio": [],
        "latency_seconds": {},
    }
    names = {"model_name": "m", "method": "mtp", "draft_model": "", "server_version": ""}
    own = {"target": "t", "engine": "0", "restarts": 0, "broken_checks": []}
    engine = {**names, **own, "measurement": measurement}
    return _REFERENCE.written(
        {
            "ended": "2026-11-22T00:00:00Z",
            "seconds": 60.0,
            "exporter_version": "1",
            "engines": [engine] * engines,
            "models": [{**names, "engines": 1, "measurement": measurement}],
        }
    )


def _learnt(engines: int, values: int) -> bytes:
    learnt = {"drops": {"numbers": [0.123] * values}}
    entry = {"target": "t", "model_name": "m", "engine": "0", "seen": 1e9, "learnt": learnt}
    return _STATE.written({"engines": [entry] * engines})


def _rows_of_lists() -> Iterator[Row]:
    yield Row(
        name="http_sd list",
        kind="socket",
        controlled_by="the server of `discovery.http`",
        bytes=f"{MOST_BYTES // _MIB} MiB after decompression; {MOST_CHARACTERS // 2**10} KiB of one text; "
        f"{MOST_URL_CHARACTERS // _MIB} MiB of all URLs",
        items=_LIST_ITEMS,
        time="slices of a millisecond or two",
        addresses=_ENTRIES,
        beyond_bounds=_NO_LIST,
        read=_http_list,
        worst=_JSON_WORST,
        beyond=_JSON_BEYOND,
    )
    files = f"; {MOST_FILES:,} files of a pattern with {MOST_BYTES_TOGETHER // _MIB} MiB together"
    yield Row(
        name="file_sd list in JSON",
        kind="file",
        controlled_by=_HOLDER,
        bytes=f"{MOST_BYTES // _MIB} MiB; {MOST_CHARACTERS // 2**10} KiB of one text{files}",
        items=_LIST_ITEMS,
        time=_THREAD,
        addresses=_ENTRIES,
        beyond_bounds=_NO_LIST,
        read=_file_list(".json"),
        worst=_JSON_WORST,
        beyond=_JSON_BEYOND,
    )
    yield Row(
        name="file_sd list in YAML",
        kind="file",
        controlled_by=_HOLDER,
        bytes=f"{MOST_BYTES // _MIB} MiB; {MOST_TEXT // 2**10} KiB of one text{files}",
        items=f"{_LIST_ITEMS}; {MOST_NODES_OF_AN_ITEM:,} values of a group and {MOST_NODES_OF_A_LIST:,} of all",
        time=f"{_THREAD}; then a pause of ten times as long",
        addresses=_ENTRIES,
        beyond_bounds=_NO_LIST,
        read=_file_list(".yml"),
        worst=_YAML_WORST,
        beyond=_YAML_BEYOND,
    )


def _rows_of_pods() -> Iterator[Row]:
    yield Row(
        name="Kubernetes list of pods",
        kind="socket",
        controlled_by="the API server of `discovery.kubernetes`, and whoever may create pods",
        bytes=f"{LARGEST_PAGE // _MIB} MiB of one response; "
        f"{MOST_POD_CHARACTERS // 2**10} KiB of one text that is kept",
        items=f"{MOST_PODS:,} pods, {MOST_TARGETS:,} targets",
        time="slices of a millisecond or two, one pod at a time; lists at least 5 s apart",
        addresses="the addresses of the pods",
        beyond_bounds=_NO_LIST,
        read=_pod_list,
        worst={
            "pods": _json(
                lambda: {
                    "metadata": {"resourceVersion": "1"},
                    "items": [_pod(f"p{n}") for n in range(MOST_TARGETS)],
                }
            ),
            "a pod with a large part that is not read": _list(_BEGIN_OF_POD + b',"x":[', b"[],", b"[]]}"),
            "a pod with a large text": _list(_BEGIN_OF_POD + b',"x":"', b"\\u0000", b'"}'),
            "a pod with many variables": _list(
                _BEGIN_OF_POD + b',"spec":{"containers":[{"env":[', b'{"name":"a"},', b'{"name":"a"}]}]}}'
            ),
            "a pod with many arguments": _list(
                _BEGIN_OF_POD + b',"spec":{"containers":[{"args":[', b'"--spec",', b'""]}]}}'
            ),
        },
        beyond={
            "bytes": filled(b"[", b" ", b"]", LARGEST_PAGE + 1),
            "targets": _json(
                lambda: {
                    "metadata": {"resourceVersion": "1"},
                    "items": [_pod(f"p{n}") for n in range(MOST_TARGETS + 1)],
                }
            ),
            "bytes full of empty pods": _list(b"", b"{},", b"{}"),
            "members of an object": _list(
                b'{"metadata":{"annotations":{',
                b",".join(b'"a%d":""' % number for number in range(20_000)) + b",",
                b'"":""}}}',
            ),
        },
    )
    yield Row(
        name="Kubernetes watch event",
        kind="socket",
        controlled_by="the API server of `discovery.kubernetes`, and whoever may create pods",
        bytes=f"{LONGEST_LINE // _MIB} MiB of one event; "
        f"{MOST_POD_CHARACTERS // 2**10} KiB of one text that is kept",
        items=f"{MOST_TARGETS:,} targets",
        time="slices of a millisecond or two, one event at a time; a pause of 1 s after each change of a target",
        addresses="the address of the pod",
        beyond_bounds=_NO_LIST,
        read=_pod_events,
        worst={
            "an event with a large part that is not read": filled(
                b'{"type":"MODIFIED","object":' + _BEGIN_OF_POD + b',"x":[', b"[],", b"[]]}}", LONGEST_LINE
            ),
            "many events": lambda: b"\n".join(
                [b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}'] * 20_000
            ),
            "empty lines": filled(b"", b"\n", b"", LONGEST_LINE),
        },
        beyond={
            "bytes": filled(
                b'{"type":"MODIFIED","object":' + _BEGIN_OF_POD + b',"x":[',
                b"[],",
                b"[]]}}",
                LONGEST_LINE + _MIB,
            ),
            "an event that is no object": lambda: b"[]",
        },
    )


def _rows_of_configuration() -> Iterator[Row]:
    sizes = f"{LARGEST_YAML // _MIB} MiB; {MOST_TEXT // 2**10} KiB of one text"
    items = f"{MOST_NODES:,} values, 50 levels, 100 mistakes reported"
    yield Row(
        name="configuration",
        kind="file",
        controlled_by="whoever writes the configuration, who is trusted",
        bytes=sizes,
        items=items,
        time="at the start; at a reload beside the event loop, with single calls of up to a second",
        addresses="everything: it names the hosts, files and secrets",
        beyond_bounds="at the start the program ends with the reason; at a reload the old one stays: `reload_failed`",
        read=_in_file(lambda path: load(path, environ={}), ConfigError, name="exporter.yml"),
        worst={"targets": lambda: _targets(5_000), "a comment": filled(b"# ", b"x", b"", LARGEST_YAML)},
        beyond=_TREE_BEYOND,
    )
    yield Row(
        name="web configuration",
        kind="file",
        controlled_by="whoever writes the web configuration, who is trusted",
        bytes=sizes,
        items=items,
        time="at the start; after a change beside the event loop, with single calls of up to a second",
        addresses="the certificates and keys that it names",
        beyond_bounds="at the start the program ends with the reason; later the old one stays: "
        "`web_config_reload_failed`",
        read=_in_file(read_web_config, ConfigError, name="web.yml"),
        worst={"users": lambda: _users(1_000), "a comment": filled(b"# ", b"x", b"", LARGEST_YAML)},
        beyond=_TREE_BEYOND,
    )
    yield Row(
        name="secret file",
        kind="file",
        controlled_by="whoever writes the file, who is trusted",
        bytes=f"{LARGEST_SECRET // _MIB} MiB",
        items="one line",
        time="read once after each change; else one `stat` a request",
        addresses="nothing",
        beyond_bounds="the request is not sent: the poll fails with `refused`",
        read=_in_file(_secret, PollError),
        worst={"one line": filled(b"", b"x", b"", LARGEST_SECRET)},
        beyond={
            "bytes": filled(b"", b"x", b"", LARGEST_SECRET + 1),
            "two lines": lambda: b"a\nb",
            "a byte that is not ASCII": lambda: b"\xff",
        },
    )


def _rows_of_documents() -> Iterator[Row]:
    yield Row(
        name="reference file",
        kind="file",
        controlled_by="whoever writes the file, who is trusted",
        bytes=f"{reference.LARGEST // _MIB} MiB",
        items=f"{reference.MOST_VALUES:,} values",
        time="at the start, at a reload beside the event loop",
        addresses="nothing",
        beyond_bounds="the configuration that names it is rejected, with the reason",
        read=_in_file(reference.read, reference.ReferenceFileError),
        worst={"engines": lambda: _reference(1_000)},
        beyond={
            "bytes": filled(b"", b" ", b"", reference.LARGEST + 1),
            "values": filled(b"[", b"{},", b"{}]"),
            "nesting": lambda: b"[" * reference.MOST_VALUES,
            "a text": filled(b'["', b"x", b'"]'),
        },
    )
    yield Row(
        name="state file",
        kind="file",
        controlled_by="the exporter itself, and whoever may write to its directory",
        bytes=f"{LARGEST_STATE // _MIB} MiB",
        items=f"{MOST_STATE_VALUES:,} values",
        time="before the first poll; beside the event loop where a reload names another file",
        addresses="nothing",
        beyond_bounds="it is renamed to `<name>.corrupt`: `state_file_set_aside`; the exporter starts without",
        read=_in_file(_state),
        worst={"engines": lambda: _learnt(2_000, 400)},
        beyond={
            "bytes": filled(b"", b" ", b"", LARGEST_STATE + 1),
            "values": filled(b"[", b"{},", b"{}]"),
            "nesting": lambda: b"[" * MOST_STATE_VALUES,
        },
    )
    yield Row(
        name="config.json of a model",
        kind="file",
        controlled_by="whoever made the model's folder",
        bytes=f"{checkpoint.CONFIG.bytes // _MIB} MiB",
        items=f"{checkpoint.CONFIG.values:,} values",
        time="a command of its own: `plan`",
        addresses="nothing",
        beyond_bounds="the command ends with the reason",
        read=_in_file(
            lambda path: checkpoint.model_of(str(path), None, None), ModelError, name="config.json"
        ),
        worst={
            "values": _json(lambda: {**_MODEL, "x": [{}] * (checkpoint.CONFIG.values // 2 - 20)}),
            "a text": _json(lambda: {**_MODEL, "x": "x" * (checkpoint.CONFIG.bytes - 1000)}),
        },
        beyond={
            "bytes": filled(b"", b" ", b"", checkpoint.CONFIG.bytes + 1),
            "values": filled(b'{"x":[', b"[],", b"[]]}"),
            "nesting": lambda: b"[" * checkpoint.CONFIG.values,
            "a number": lambda: json.dumps({**_MODEL, "hidden_size": 10**4000}).encode(),
        },
    )
    yield Row(
        name="safetensors header of a model",
        kind="file",
        controlled_by="whoever made the model's folder",
        bytes="8 bytes: its length",
        items="nothing else is read",
        time="a command of its own: `plan`",
        addresses="nothing",
        beyond_bounds="the weights are counted from config.json instead",
        read=_in_file(_safetensors, ModelError, name="model.safetensors"),
        worst={
            "a length beyond the file": lambda: b"\xff" * 8,
            "no length": lambda: b"\x01",
            "a long header": filled((2**16).to_bytes(8, "little"), b"[", b"", 2**20),
        },
    )


ROWS: tuple[Row, ...] = (
    *_rows_of_lists(),
    *_rows_of_pods(),
    *_rows_of_configuration(),
    *_rows_of_documents(),
)
"""The rows of the table of untrusted inputs."""
