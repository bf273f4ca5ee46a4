"""Match of a target to the servers of a history."""

from __future__ import annotations

import pytest

from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.history.baseline_match import server_of
from spec_decode_exporter.history.history_targets import HistoryTarget
from spec_decode_exporter.history.query_api import HistoryError
from spec_decode_exporter.scrape.engines import ENGINES


def server(**labels):
    return HistoryTarget(ENGINES[0], "vllm:", labels, created=True)


def target(*, url="http://10.0.0.1:8000/metrics", name="chat", **labels):
    return Target(url, name, tuple(sorted(labels.items())))


def found(target, *servers, is_only_target=False):
    return servers.index(server_of(target, servers, is_only_target=is_only_target))


def test_the_address_is_the_instance():
    assert found(target(), server(instance="10.0.0.2:8000"), server(instance="10.0.0.1:8000")) == 1


def test_the_name_may_be_the_instance():
    assert found(target(), server(instance="other"), server(instance="chat")) == 1


def test_of_two_servers_with_the_address_the_labels_decide():
    servers = [server(instance="10.0.0.1:8000", cluster=name) for name in ("one", "two")]
    assert found(target(cluster="two"), *servers) == 1


def test_without_the_address_the_labels_decide():
    servers = [server(instance=f"10.0.1.{n}:8000", pod=f"vllm-{n}", namespace="prod") for n in range(3)]
    assert found(target(pod="vllm-2", namespace="prod", team="a"), *servers) == 2


def test_one_server_alone_is_that_of_one_target_alone():
    alone = server(instance="elsewhere:8000")
    assert found(target(), alone, is_only_target=True) == 0
    with pytest.raises(HistoryError, match="none of the 1 servers there is this target: elsewhere:8000"):
        found(target(), alone)


def test_labels_that_contradict_do_not_fit():
    with pytest.raises(HistoryError, match=r"none of the 2 servers .* choose its server by `match`"):
        found(target(pod="a", namespace="n"), server(pod="b", namespace="n"), server(pod="c", namespace="n"))


def test_several_that_fit_are_named():
    servers = [server(instance=f"{n}", namespace="prod") for n in range(5)]
    with pytest.raises(
        HistoryError, match=r"5 servers there fit this target: 0, 1, 2 and others; choose one"
    ):
        found(target(namespace="prod"), *servers)


def test_a_hostile_name_is_short_and_printable():
    with pytest.raises(HistoryError) as error:
        found(target(), *(server(instance=f"\x1b{n}" * 4000) for n in range(3)))
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500
