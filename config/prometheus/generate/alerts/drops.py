"""Alerts about acceptance that drops, and drafting that stops."""

from __future__ import annotations

from typing import Final

from config.prometheus.generate.rule import WHERE, WHOLE, Alert, now, once_each

_PEER = "{{ $labels.model_name }} ({{ $labels.method }}, {{ $labels.tokens }} draft tokens)"

_DROPPED: Final = once_each(
    "@model", 'avg_over_time(spec_decode_acceptance_dropped{kind="sudden", @only}[2m])'
)

DROPS: Final = (
    Alert(
        "SpecDecodeSuddenDrop",
        summary="The acceptance length of an engine dropped suddenly below its baseline.",
        action="Compare prompts, temperature and the versions of model and drafter with those before; restart the engine if none changed.",
        description=f"{WHERE}: a draft gives "
        f"{now('spec_decode_acceptance_length_tokens', window='@short')} tokens over the last @short, and gave "
        f"{now('spec_decode_baseline_acceptance_length_tokens')} before.",
        # More than half of two minutes, so that a flag of less than one is not told: all but one of the false ones
        # of the study are so short (docs/explanation/drops.md). Series that end in a stall do not count against it.
        expr='avg_over_time(spec_decode_acceptance_dropped{kind="sudden"}[2m]) > 0.5',
    ),
    Alert(
        "SpecDecodeDraftingDropped",
        summary="The drafter of an engine finds a draft in fewer decode steps than before.",
        action="Compare the prompts with those before: the drafter needs text that repeats itself.",
        description=f"{WHERE}: over the last @short, "
        f"{now('spec_decode_coverage_ratio', 'humanizePercentage', window='@short')} of the decode steps had a draft, and a step "
        f"gave {now('spec_decode_effective_tokens_per_step', window='@short')} tokens.",
        # As for a sudden drop: a flag of less than a minute is no alert.
        expr='avg_over_time(spec_decode_acceptance_dropped{kind="drafting"}[2m]) > 0.5',
    ),
    Alert(
        "SpecDecodeSlowDrift",
        summary="The acceptance length of an engine has been falling for hours.",
        action="Restart the engine if its traffic is the same as some hours ago.",
        description=f"{WHERE}: a draft gives "
        f"{now('spec_decode_acceptance_length_tokens', window='@long')} tokens over the last @long, and is "
        "well below its value of some hours ago. Some server defects cause this until a restart.",
        expr='last_over_time(spec_decode_acceptance_dropped{kind="slow"}[5m]) == 1',
    ),
    Alert(
        "SpecDecodeModelAcceptanceDropped",
        summary="The acceptance length of many engines of one model dropped together.",
        action="Read some answers, and roll back the last change of the model, its drafter or its prompts.",
        description="{{ $labels.model_name }}: acceptance has dropped on "
        "{{ $value | humanizePercentage }} of its engines that have a baseline, at the same time. They share the "
        "workload, the model and its drafter.",
        # Uses the flag of SpecDecodeSuddenDrop: a slow drift must not wake anybody.
        expr=f"avg by (@model) ((\n{_DROPPED}\n) > bool 0.5) >= @share\n"
        f"and sum by (@model) ((\n{_DROPPED}\n) > bool 0.5) >= @engines",
        dashboard="spec-decode-overview",
        variables=("model_name",),
    ),
    Alert(
        "SpecDecodeEngineBelowPeers",
        summary="The acceptance length of an engine is below that of the other engines of its model.",
        action="Compare its version, flags and traffic with those of its peers, and restart it.",
        description=f"{WHERE}: "
        "the acceptance length of the last 30 minutes is {{ $value | humanizePercentage }} of the median of the "
        "engines with the same model, method and draft tokens.",
        expr="""
        engine:spec_decode_acceptance_length:ratio_rate30m
          / on (@peers) group_left () peers:spec_decode_acceptance_length:median_rate30m
          < @ratio
        and engine:spec_decode_drafts:rate30m * 1800 >= @peer_drafts
        and on (@peers) peers:spec_decode_engines:count_rate30m >= @engines
        """,
    ),
    Alert(
        "SpecDecodeModelBelowYesterday",
        summary="The acceptance length of a model is below that of the same hour yesterday.",
        action="Compare the prompts and the versions of model and drafter with those of yesterday.",
        description=f"{_PEER}: "
        "the acceptance length of the last hour is {{ $value | humanizePercentage }} of what it was in the same "
        "hour yesterday, over all engines.",
        expr="""
        peers:spec_decode_acceptance_length:ratio_rate1h
          / peers:spec_decode_acceptance_length:ratio_rate1h offset 1d
          < @ratio
        and peers:spec_decode_drafts:rate1h * 3600 >= @drafts
        and peers:spec_decode_drafts:rate1h offset 1d * 3600 >= @drafts
        """,
        dashboard="spec-decode-overview",
        variables=("model_name",),
    ),
    Alert(
        "SpecDecodeAcceptanceBelowReference",
        summary="The acceptance ratio of an engine is below its reference, statistically significant (95 %).",
        action="Roll back the last change of model, drafter or vLLM, or measure a new reference.",
        description=f"{WHERE}: for at least @for at most "
        "{{ $value | humanizePercentage }} of the draft tokens were accepted even at the upper 95 % bound; the reference is "
        f"{now('spec_decode_reference_acceptance_ratio', 'humanizePercentage')}.",
        expr="""
        max_over_time(spec_decode_draft_acceptance_ratio_upper{window="@long"}[10m])
          < ignoring (window) (last_over_time(spec_decode_reference_acceptance_ratio[5m]) - @points)
        and increase(spec_decode_drafts_total[10m]) >= @drafts
        """,
    ),
    Alert(
        "SpecDecodeDraftsStalled",
        summary="An engine serves requests and has stopped drafting.",
        action="Read vLLM's log of the last minutes, and restart the engine if it explains nothing.",
        description=f"{WHERE}: it drafted before, and drafted nothing for two minutes or more while it generated "
        f"{now('spec_decode_generation_tokens_per_second', WHOLE, window='@short')} tokens a second.",
        expr='last_over_time(spec_decode_state{state="stalled"}[5m]) == 1',
    ),
    Alert(
        "SpecDecodeDrafterDead",
        summary="An engine drafts and accepts no draft token.",
        action="Restart the engine, without --speculative-config if it happens again.",
        description=f"{WHERE}: "
        '{{ printf "%.0f" $value }} drafts in up to 10 minutes, and no draft token was accepted. Every draft costs time.',
        expr="""
        increase(spec_decode_drafts_total[10m]) >= @drafts
        and increase(spec_decode_accepted_tokens_total[10m]) == 0
        """,
    ),
    Alert(
        "SpecDecodeFirstPositionNearOne",
        summary="Nearly every first draft token is accepted; repetitive output does this.",
        action="Read some answers: if they repeat themselves, correct the prompts or the sampling.",
        description=f"{WHERE}: "
        "the first position was accepted in {{ $value | humanizePercentage }} of the drafts of the last 30 minutes.",
        expr="""
        sum without (position) (rate(spec_decode_position_accepted_tokens_total{position="0"}[30m]))
          / rate(spec_decode_drafts_total[30m])
          > @ratio
        and increase(spec_decode_drafts_total[30m]) >= @drafts
        """,
    ),
)
