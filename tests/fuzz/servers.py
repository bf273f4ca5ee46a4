"""Parsers of other server responses: Kubernetes' API, vLLM's settings, command lines of pods."""

from __future__ import annotations

from contextlib import asynccontextmanager

from pydantic import ValidationError
from structlog.testing import capture_logs

from spec_decode_exporter.config.batch_schedule import MAX_RANGES
from spec_decode_exporter.config.kubernetes_settings import KubernetesDiscovery
from spec_decode_exporter.config.schema import Scrape
from spec_decode_exporter.core.cooperative_yield import cooperatively
from spec_decode_exporter.discovery.kubernetes.api_access import Access
from spec_decode_exporter.discovery.kubernetes.api_objects import ApiError
from spec_decode_exporter.discovery.kubernetes.pod_discovery import PodDiscovery
from spec_decode_exporter.discovery.kubernetes.pods_api import PodsApi, _events
from spec_decode_exporter.discovery.vllm_command_line import config_speculation, pod_speculation
from spec_decode_exporter.scrape.page.layout_map import MAX_POSITIONS
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation, served_speculation
from tests.fuzz.harness import Harness, finished, sane

_SETTINGS = KubernetesDiscovery(
    ports=("8000", "http"), labels={"zone": "zone"}, annotations={"team": "team"}, api_server="http://a"
)


class Answer:
    """Response of the API in two parts, without I/O."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.content = self

    async def read(self) -> bytes:
        return self._body

    async def iter_any(self):
        middle = len(self._body) // 2
        yield self._body[:middle]
        yield self._body[middle:]

    async def iter_chunks(self):
        async for piece in self.iter_any():
            yield piece, True


class Api(PodsApi):
    """API without a network: the same response to every request."""

    def __init__(self, body: bytes) -> None:
        super().__init__(None, Access.of(_SETTINGS), "", "")
        self._answers = iter([Answer(body), Answer(b'{"metadata": {"resourceVersion": "1"}}')])

    @asynccontextmanager
    async def _get(self, verb, asked, patience):
        assert all(type(value) is str for value in asked.values())
        yield next(self._answers)


def check_pods(data: bytes) -> None:
    """Check a list of pods and the events of a watch."""
    discovery = PodDiscovery("", _SETTINGS, Scrape())
    with capture_logs() as logged:
        for look in (_list, _watch):
            try:
                finished(look(discovery, data))
            except ApiError as error:
                sane(error)
            except ValidationError:
                pass  # rejected with a reason
    assert all(len(str(line)) < 4000 for line in logged)
    for target in discovery._pods.targets():
        target.url.encode("ascii")
        _check_speculation(target.pod_arguments)


async def _list(discovery: PodDiscovery, data: bytes) -> None:
    pods = discovery._pods.begin()
    version = await Api(data).listed(discovery._pods.shape, pods.put)
    assert type(version) is str
    discovery._pods.replace(pods)


async def _watch(discovery: PodDiscovery, data: bytes) -> None:
    async for together in _events(Answer(data + b"\n"), discovery._pods.shape):
        await cooperatively(discovery._apply(together))
    assert type(discovery._version) is str


def check_arguments(data: bytes) -> None:
    """Check a command line with one word a line, and as the value of a variable."""
    text = data.decode(errors="replace")
    _check_speculation(pod_speculation(text.splitlines(), {"A": text[:500], "B": "$(A)$(B)"}))
    try:
        _check_speculation(config_speculation(text))
    except ValueError as error:
        sane(error)


def check_server_info(data: bytes) -> None:
    """Check a response to /server_info."""
    _check_speculation(served_speculation(data))


def _check_speculation(found: ServedSpeculation | None) -> None:
    if found is None:
        return
    assert found.method.isprintable()
    assert found.draft_model.isprintable()
    assert len(found.method) + len(found.draft_model) <= 320
    assert found.tokens is None or 0 < found.tokens <= MAX_POSITIONS
    assert len(found.schedule.firsts) == len(found.schedule.tokens) <= MAX_RANGES
    assert all(0 <= tokens <= MAX_POSITIONS for tokens in found.schedule.tokens)
    assert found.problem.isprintable()


_SPECULATION = ("method", "model", "num_speculative_tokens", "ngram", "eagle3", "deepseek_mtp", "1")
PODS = Harness(
    check_pods,
    (
        "type", "object", "ADDED", "DELETED", "BOOKMARK", "ERROR", "metadata", "items", "continue", "resourceVersion",
        "name", "namespace", "labels", "annotations", "prometheus.io/port", "prometheus.io/path", "spec", "containers",
        "command", "args", "env", "value", "ports", "containerPort", "status", "phase", "Running", "podIP", "10.0.0.1",
        "conditions", "Ready", "True", "code", "message", "410", "--speculative-config", "http", "8000",
    ),
    json=True,
)  # fmt: skip
ARGUMENTS = Harness(
    check_arguments,
    (
        "--speculative-config", "-sc", "--spec-method", "--speculative-model", "--num-speculative-tokens", "=", "\n",
        "$(A)", "${A}", "$A", "$$", "&&", "'", '"', "\\\n", '{"method": "ngram"}', "vllm serve ", *_SPECULATION,
    ),
)  # fmt: skip
SERVER_INFO = Harness(
    check_server_info,
    (
        "vllm_config", "speculative_config", "num_speculative_tokens_per_batch_size", *_SPECULATION,
        "speculative_config=SpeculativeConfig(method='", "', model=None", ", num_spec_tokens=4)",
    ),
    json=True,
)  # fmt: skip
