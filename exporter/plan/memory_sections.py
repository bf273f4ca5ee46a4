"""The sections of a plan about memory: the weights, and what they leave for the KV cache."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.plan import words
from exporter.plan.document import lost
from exporter.plan.method import DRAFT_MODEL
from exporter.plan.plan import Plan
from exporter.plan.sizes import gigabytes
from exporter.report import numbers
from exporter.report.parts import Figure, Note


def missing(plan: Plan) -> Iterator[Note]:
    """Yield what nobody said, and how to say it."""
    unknown = [
        name
        for name, part in (("target", plan.wanted.target), ("draft", plan.wanted.draft))
        if part is not None and part.sequence_bytes(1, plan.wanted.context, plan.wanted.element_bytes) is None
    ]
    if unknown:
        flags = " and ".join(f"--{name}.kv-bytes-per-token" for name in unknown)
        yield Note(
            f"What a token takes of the KV cache is not known of the {' and the '.join(unknown)}: a number "
            f"of parameters does not say it. Give a config.json instead, or {flags}."
        )


def weights(plan: Plan) -> Iterator[Figure]:
    """Yield what the models take, and what is left."""
    wanted, gpus = plan.wanted, plan.wanted.gpus
    yield Figure("target", gigabytes(plan.alone.weight_bytes), "", _of_memory(plan, plan.alone.weight_bytes))
    if wanted.draft is not None:
        size = wanted.draft.bytes_over(gpus.number)
        yield Figure("draft", gigabytes(size), "", _of_memory(plan, size))
        both = plan.drafting.weight_bytes
        yield Figure("both", gigabytes(both), "", _of_memory(plan, both))
    yield Figure("left", gigabytes(plan.drafting.left_bytes), "", "of what the engine may take")
    ratio = plan.draft_ratio
    if ratio:
        usual = ", usual is 1:8 to 1:12" if wanted.method == DRAFT_MODEL else ""
        yield Figure("draft to target", f"1:{1 / ratio:.1f}", "", f"by active parameters{usual}")


def _of_memory(plan: Plan, size: int) -> str:
    return f"{100 * size / plan.wanted.gpus.all_bytes:.1f} % of all memory"


def cache(plan: Plan) -> Iterator[Figure]:
    """Yield how much the KV cache holds with the draft and without it."""
    alone, drafting = plan.alone, plan.drafting
    rows = (
        ("size", gigabytes(drafting.cache_bytes), gigabytes(alone.cache_bytes), _less(plan)),
        ("a token", words.kilobytes(drafting.bytes_per_token), words.kilobytes(alone.bytes_per_token), ""),
        ("tokens", numbers.count(drafting.tokens), numbers.count(alone.tokens), _lost("tokens", plan)),
        (
            "sequences at a time",
            numbers.count(drafting.sequences),
            numbers.count(alone.sequences),
            _lost("sequences", plan),
        ),
    )
    for name, value, without, less in rows:
        if value != numbers.NONE:
            yield Figure(name, value, "", f"{without} without the draft{less}")


def _less(plan: Plan) -> str:
    size = plan.alone.cache_bytes - plan.drafting.cache_bytes
    return f", {gigabytes(size)} less" if size else ""


def _lost(what: str, plan: Plan) -> str:
    number = lost(getattr(plan.alone, what), getattr(plan.drafting, what))
    return f", {number:,} lost" if number else ""
