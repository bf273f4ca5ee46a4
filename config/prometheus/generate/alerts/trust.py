"""Alerts about whether the server is there, and whether its counters can be trusted."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.rule import WHERE, Alert

_TARGET = "{{ $labels.target }} ({{ $labels.instance }})"

TRUST: Final = (
    Alert(
        "SpecDecodeTargetDown",
        summary="The exporter cannot read a server's metrics.",
        action="Look at the server's process and log, or correct its address.",
        description=f"{_TARGET}: no poll has succeeded for minutes. Either the server was up before, or it has "
        "not come up within @loading.",
        expr="""
        max_over_time(spec_decode_exporter_target_up[2m]) == 0
        and (
          max_over_time(spec_decode_exporter_target_up[6h]) == 1
          # Models load for minutes: a server that was never up gets time.
          or spec_decode_exporter_target_up offset @loading
        )
        """,
        dashboard="spec-decode-exporter",
        variables=("instance", "target"),
    ),
    Alert(
        "SpecDecodeTargetWithoutEngine",
        summary="A target answers with a page that has no engine: it may be the address of another program.",
        action="Correct the target's address or path, or start vLLM without --disable-log-stats.",
        description=f"{_TARGET}: its page was read for minutes and has no engine; its speculation is not watched.",
        # Over two minutes: a poll that fails in between does not start the time again.
        expr="last_over_time(spec_decode_exporter_target_engines[2m]) == 0",
        dashboard="spec-decode-exporter",
        variables=("instance", "target"),
    ),
    Alert(
        "SpecDecodeCountersSawTooth",
        summary="A server's counters reset repeatedly, as behind a load balancer.",
        action="Give the exporter the address of each server instead of the load balancer's.",
        description=f"{WHERE}: "
        'its counters reset {{ printf "%.0f" $value }} times in up to 10 minutes. Causes are one address for several '
        "servers, or a server that crashes in a loop.",
        expr="""
        sum without (cause) (increase(spec_decode_engine_resets_total[10m]))
        and (
          sum without (cause) (increase(spec_decode_engine_resets_total[10m])) >= @resets
          or min without (check) (last_over_time(spec_decode_consistent{check="one_server"}[5m])) == 0
        )
        """,
    ),
    Alert(
        "SpecDecodeCountersInconsistent",
        summary="A server's counters of speculation contradict each other.",
        action="Do not act on its figures; report the difference with the versions of vLLM and of the exporter.",
        description=f"{WHERE}: the identity {{{{ $labels.check }}}} is broken. Figures computed from these counters are wrong; "
        "the exporter's log has the difference.",
        expr='last_over_time(spec_decode_consistent{check!="one_server"}[5m]) == 0',
    ),
    Alert(
        "SpecDecodePollsFailing",
        summary="Many polls of a server fail, and others succeed.",
        action="Poll the server directly instead of through a proxy, or raise poll.timeout.",
        description=f"{_TARGET}: "
        "{{ $value | humanizePercentage }} of the polls of the last 15 minutes failed. Windows have gaps.",
        expr="""
        sum without (reason) (rate(spec_decode_exporter_poll_failures_total[15m]))
          / rate(spec_decode_exporter_polls_total[15m])
          > @share
        and max_over_time(spec_decode_exporter_target_up[5m]) == 1
        """,
        dashboard="spec-decode-exporter",
        variables=("instance", "target"),
    ),
)
