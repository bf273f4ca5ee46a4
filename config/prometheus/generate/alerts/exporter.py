"""Alerts about the exporter itself."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.rule import Alert

_TARGET = "{{ $labels.target }} ({{ $labels.instance }})"

EXPORTER: Final = (
    Alert(
        "SpecDecodePollsStale",
        summary="The exporter has stopped polling a server without saying that it fails.",
        description=f"{_TARGET}: "
        "the newest successful poll is {{ $value | humanizeDuration }} old, and none has failed since.",
        # By the time of the scrape, not of the rule: otherwise a scrape interval of 60 s counts as age.
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
        summary="A server takes long to answer the exporter's polls.",
        description=f"{_TARGET}: "
        "a poll took {{ $value | humanizeDuration }} in the mean of the last 15 minutes. The exporter polls less "
        "often then, and short windows hold little.",
        expr="avg_over_time(spec_decode_exporter_poll_seconds[15m]) > @seconds",
        dashboard="spec-decode-exporter",
        variables=("instance", "target"),
    ),
    Alert(
        "SpecDecodeExporterDown",
        summary="Prometheus cannot scrape an exporter.",
        description="{{ $labels.instance }} (job {{ $labels.job }}): no scrape has succeeded for minutes. Nothing "
        "is known of the servers that it watches.",
        # The job's name is anybody's choice: an exporter is what has shown the exporter's build.
        expr="""
        max_over_time(up[2m]) == 0
        and on (@scope, instance) last_over_time(spec_decode_exporter_build_info[1d])
        """,
        dashboard="spec-decode-exporter",
        variables=("instance",),
    ),
    Alert(
        "SpecDecodeExporterAbsent",
        summary="Prometheus knows of no exporter at all.",
        description="No exporter has been scraped for minutes: speculation is not watched, and every other "
        "SpecDecode alert is silent.",
        expr="absent(last_over_time(spec_decode_exporter_build_info[5m]))",
        dashboard="spec-decode-exporter",
        variables=(),
    ),
    Alert(
        "SpecDecodeReloadFailed",
        summary="The exporter could not read its configuration, or that of its web side, anew and goes on with the "
        "old one.",
        description="{{ $labels.instance }}: the last reading of the configuration, or of --web.config.file, "
        "failed. Its log says at which line.",
        expr="""
          max_over_time(spec_decode_exporter_config_last_reload_successful[5m]) == 0
          or max_over_time(spec_decode_exporter_web_config_last_reload_successful[5m]) == 0
        """,
        dashboard="spec-decode-exporter",
        variables=("instance",),
    ),
)
