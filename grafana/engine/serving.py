"""Times of requests, and what is short on the server."""

from __future__ import annotations

from grafana import style
from grafana.board import Band
from grafana.engine.looks import LONG, RATIO
from grafana.panels import Look, Panel, Query, line, lines, named
from grafana.promql import ENGINE, by, percentile
from grafana.style import Colour


def _quantiles(title: str, description: str, quantity: str) -> Panel:
    selector = ENGINE(f"spec_decode_{quantity}_quantile_seconds")
    panel = lines(
        title,
        description,
        [Query(by(("quantile",), selector), "{{quantile}}")],
        Look(unit="s", least=0),
    )
    looks = {
        label: {"color": style.fixed(colour), "displayName": percentile(label)}
        for label, colour in style.QUANTILES.items()
    }
    return named(panel, looks)


def bands() -> list[Band]:
    """Return how long requests take."""
    per_token = _quantiles(
        "Time per output token",
        "Percentiles over requests of the time per token after the first. This is what speculation is for.",
        "time_per_output_token",
    )
    to_first = _quantiles(
        "Time to first token",
        "Percentiles over requests. Speculation does not shorten it; a growing one is a queue, long "
        "prompts or a lost prefix cache.",
        "time_to_first_token",
    )
    return [Band(8, [(12, per_token), (12, to_first)])]


def _mean(title: str, description: str, selector: str) -> Panel:
    return lines(title, description, [Query(selector, "mean", line(Colour.TREND))], Look(unit="s", least=0))


def _cache() -> Panel:
    return lines(
        "KV cache",
        "Share of the KV cache in use, and share of prompt tokens found in the prefix cache. A draft "
        "model's memory comes out of the KV cache.",
        [
            Query(ENGINE("spec_decode_kv_cache_usage_ratio"), "in use", line(Colour.NOW)),
            Query(ENGINE("spec_decode_prefix_cache_hit_ratio"), "prefix hits", line(Colour.TREND)),
        ],
        RATIO,
    )


def _preemptions() -> Panel:
    return lines(
        "Preemptions",
        "Requests a second that lost their place because the KV cache was full; their work is done again.",
        [Query(ENGINE("spec_decode_preemptions_per_second"), "preemptions", line(Colour.BAD))],
        Look(unit="cps", least=0, axis=(None, 1)),
    )


def details() -> list[Band]:
    """Return mean times, and what is short on the server."""
    per_token = _mean(
        "Mean time per output token",
        "Mean over tokens after the first: long requests count for more than in the percentiles.",
        ENGINE("spec_decode_time_per_output_token_seconds", window=LONG),
    )
    to_first = _mean(
        "Mean time to first token",
        "Mean over requests. It is part of the speed-up of a whole request.",
        ENGINE("spec_decode_time_to_first_token_seconds"),
    )
    return [Band(8, [(6, panel) for panel in (per_token, to_first, _cache(), _preemptions())])]


def gpu() -> list[Band]:
    """Return the memory of the GPUs of the hosts chosen."""
    # dcgm-exporter is another job, and does not know which engine runs on a GPU.
    used, free = (f'DCGM_FI_DEV_FB_{what}{{Hostname=~"$gpu_host"}}' for what in ("USED", "FREE"))
    memory = lines(
        "GPU memory in use",
        "Memory of every GPU of the hosts chosen at the top, from NVIDIA's dcgm-exporter, which does not "
        "know what runs on which GPU. Empty without a dcgm-exporter.",
        [Query(used, "{{Hostname}} GPU {{gpu}}")],
        Look(unit="mbytes", least=0, colour=style.by_name(), no_value="no dcgm-exporter"),
    )
    share = lines(
        "Share of GPU memory in use",
        "The same as a share. vLLM reserves its KV cache at the start, so it is flat; what a draft model "
        "takes is seen in the KV cache above.",
        [Query(f"{used} / ({used} + {free})", "{{Hostname}} GPU {{gpu}}")],
        Look(unit="percentunit", least=0, most=1, colour=style.by_name(), no_value="no dcgm-exporter"),
    )
    return [Band(8, [(12, memory), (12, share)])]
