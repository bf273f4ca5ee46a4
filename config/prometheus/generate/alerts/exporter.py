"""Alerts about the exporter itself."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.rule import Alert

_TARGET = "{{ $labels.target }} ({{ $labels.instance }})"

EXPORTER: Final = (
    Alert(
        "SpecDecodePollsStale",
        summary="The exporter has stopped polling a server and reports no failure.",
        action="Keep the exporter's log, and restart the exporter.",
        description=f"{_TARGET}: "
        "the newest successful poll is {{ $value | humanizeDuration }} old, and none has failed since.",
        # Uses the time of the scrape, not of the rule: otherwise a scrape interval of 60 s counts as age.
        expr="""
        timestamp(spec_decode_exporter_last_success_timestamp_seconds)
          - spec_decode_exporter_last_success_timestamp_seconds
          > @age
        and spec_decode_exporter_target_up == 1
        """,
        dashboard="spec-decode-exporter",
        variables=("instance", "target"),
    ),
    Alert(
        "SpecDecodePollsSlow",
        summary="A server answers the exporter's polls slowly.",
        action="Raise poll.interval, or give the server's API process more CPU.",
        description=f"{_TARGET}: "
        "a poll took {{ $value | humanizeDuration }} on average over the last 15 minutes. The exporter therefore "
        "polls less often, and short windows contain few polls.",
        expr="avg_over_time(spec_decode_exporter_poll_seconds[15m]) > @seconds",
        dashboard="spec-decode-exporter",
        variables=("instance", "target"),
    ),
    Alert(
        "SpecDecodeExporterDown",
        summary="Prometheus cannot scrape an exporter.",
        action="Restart the exporter, or correct its address in Prometheus.",
        description="{{ $labels.instance }} (job {{ $labels.job }}): no scrape has succeeded for minutes. The state of "
        "its targets is unknown.",
        # Users choose the job's name: an exporter is a target that has exported the exporter's build.
        expr="""
        max_over_time(up[2m]) == 0
        and on (@scope, instance) last_over_time(spec_decode_exporter_build_info[1d])
        """,
        dashboard="spec-decode-exporter",
        variables=("instance",),
    ),
    Alert(
        "SpecDecodeExporterAbsent",
        summary="Prometheus scrapes no exporter.",
        action="Start an exporter, or correct its scrape job.",
        description="No exporter has been scraped for minutes: speculation is not watched, and every other "
        "SpecDecode alert is silent.",
        expr="absent(last_over_time(spec_decode_exporter_build_info[5m]))",
        dashboard="spec-decode-exporter",
        variables=(),
    ),
    Alert(
        "SpecDecodeReloadFailed",
        summary="The exporter could not reload its configuration file or its web configuration, and uses the old one.",
        action="Correct that line; the exporter reads the file again at the next reload.",
        description="{{ $labels.instance }}: the last reload of the configuration file, or of --web.config.file, "
        "failed. The exporter's log names the line.",
        expr="""
          max_over_time(spec_decode_exporter_config_last_reload_successful[5m]) == 0
          or max_over_time(spec_decode_exporter_web_config_last_reload_successful[5m]) == 0
        """,
        dashboard="spec-decode-exporter",
        variables=("instance",),
    ),
)
