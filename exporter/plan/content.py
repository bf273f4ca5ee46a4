"""What a plan says to people: first whether it fits and from which acceptance on it pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from exporter.plan.cautions import cautions
from exporter.plan.cost import Basis
from exporter.plan.document import lost
from exporter.plan.memory import Part
from exporter.plan.method import DRAFT_MODEL, SEARCHES
from exporter.plan.plan import Outcome, Plan
from exporter.plan.remedy import remedy
from exporter.plan.sizes import GIGABYTE, gigabytes
from exporter.report import numbers
from exporter.report.parts import (
    Bar,
    Chart,
    Engine,
    Fact,
    Figure,
    Note,
    Report,
    Section,
    Tone,
)
from exporter.report.parts import (
    Part as ReportPart,
)

_WORDS: Final[Mapping[Outcome, tuple[str, Tone]]] = {
    Outcome.FITS: ("fits", Tone.GOOD),
    Outcome.TIGHT: ("tight", Tone.FAIR),
    Outcome.DOES_NOT_FIT: ("does not fit", Tone.BAD),
}
_BASES: Final[Mapping[Basis, str]] = {
    Basis.GIVEN: "It is as it was given.",
    Basis.MEASURED: "It is what the observation says.",
    Basis.ESTIMATED: "An estimate by the bytes that a step reads, weights and KV cache. Measure it: "
    "spec-decode-exporter observe.",
    Basis.ESTIMATED_BY_WEIGHTS: "An estimate by the weights alone. Measure it: spec-decode-exporter observe.",
}


def report(plan: Plan) -> Report:
    """Return what is to be said of a plan."""
    wanted, (word, tone) = plan.wanted, _WORDS[plan.outcome]
    drafter = wanted.method if wanted.draft is None else wanted.draft.model.name
    sections = (Section(title, tuple(parts(plan))) for title, parts in _SECTIONS.items())
    engine = Engine(
        name=f"{drafter}, {_tokens(wanted.tokens)} at a time",
        place=f"{wanted.target.model.name} on {_gpus(plan)}",
        word=word,
        tone=tone,
        gist="",
        verdict=_verdict(plan),
        advice=_advice(plan),
        facts=tuple(_facts(plan)),
        sections=tuple(section for section in sections if section.parts),
    )
    return Report("Speculative decoding, a plan", (), (engine,), ())


def _verdict(plan: Plan) -> str:
    room, wanted = plan.drafting, plan.wanted
    if plan.outcome is Outcome.DOES_NOT_FIT:
        if room.cache_bytes > 0:
            return f"Not one sequence of {wanted.context:,} tokens fits beside the weights."
        return f"The weights and the overhead are {gigabytes(-room.cache_bytes)} too large."
    cache = f"{gigabytes(room.cache_bytes)} are left for the KV cache"
    if room.sequences is None:
        return f"{cache}."
    return f"{cache}: {room.sequences:,} sequences of {wanted.context:,} tokens."


def _advice(plan: Plan) -> str:
    depth, wanted = plan.depth, plan.wanted
    if plan.outcome is Outcome.DOES_NOT_FIT:
        return remedy(plan)
    if depth.break_even_token_acceptance is None:
        return f"With {_tokens(wanted.tokens)} it never pays."
    rate = _rate_at(depth.break_even_token_acceptance, wanted.tokens)
    best = "" if plan.best_tokens in (0, wanted.tokens) else f" Best at {_tokens(plan.best_tokens)}."
    return f"It pays where more than {rate:.3f} of the draft tokens are accepted.{best}"


def _rate_at(token_acceptance: float, tokens: int) -> float:
    """Return which share of the draft tokens is accepted, at one acceptance of every token."""
    return sum(token_acceptance**position for position in range(1, tokens + 1)) / tokens


def _facts(plan: Plan) -> Iterator[Fact]:
    wanted, gpus = plan.wanted, plan.wanted.gpus
    yield Fact("target model", _described(wanted.target), foreign=True)
    yield Fact("draft model", _drafter(plan), foreign=wanted.draft is not None)
    yield Fact("GPUs", _engines(plan))
    yield Fact(
        "taken",
        f"{gpus.utilisation:g} of their memory, less {gigabytes(gpus.overhead_bytes)} each for overhead",
    )
    yield Fact("load", f"{wanted.batch:,} sequences of {wanted.context:,} tokens")


def _drafter(plan: Plan) -> str:
    wanted = plan.wanted
    if wanted.draft is None:
        return f"{wanted.method}: a search, no weights"
    method = "" if wanted.method == DRAFT_MODEL else f", by {wanted.method}"
    return _described(wanted.draft) + method


def _described(part: Part) -> str:
    model = part.model
    own = model.parameters
    experts = f" ({_parameters(own.active)} active)" if own.experts else ""
    split = f", over {part.tensor_parallel} GPUs" if part.tensor_parallel > 1 else ""
    count = "" if model.shape is None else f", {_parameters(own.total)} parameters{experts}"
    return f"{model.name}{count}, {model.dtype.name}{split}"


def _parameters(number: int) -> str:
    unit, size = next(((u, s) for u, s in (("T", 10**12), ("B", 10**9)) if number >= s), ("M", 10**6))
    return f"{number / size:.3g}{unit}"


def _gpus(plan: Plan) -> str:
    gpus = plan.wanted.gpus
    return f"{gpus.number} x {gpus.memory_bytes / GIGABYTE:.4g} GB"


def _engines(plan: Plan) -> str:
    engines = plan.wanted.engines
    return _gpus(plan) if engines == 1 else f"{engines} engines of {_gpus(plan)}; what follows is of one"


def _tokens(number: int) -> str:
    return f"{number} token{'' if number == 1 else 's'}"


def _missing(plan: Plan) -> Iterator[Note]:
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


def _weights(plan: Plan) -> Iterator[Figure]:
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


def _cache(plan: Plan) -> Iterator[Figure]:
    alone, drafting = plan.alone, plan.drafting
    rows = (
        ("size", gigabytes(drafting.cache_bytes), gigabytes(alone.cache_bytes), _less(plan)),
        ("a token", _kilobytes(drafting.bytes_per_token), _kilobytes(alone.bytes_per_token), ""),
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


def _kilobytes(size: float | None) -> str:
    return numbers.NONE if size is None else f"{size / 1000:,.1f} kB"


def _cost(plan: Plan) -> Iterator[ReportPart]:
    cost, reading = plan.costs.at(plan.wanted.tokens), plan.costs.reading
    yield Figure(
        "a draft token",
        f"{cost.draft_cost_ratio:.3f}",
        "",
        f"plain decode steps, at {reading.batch:,} sequences",
    )
    yield Figure("a draft", f"{cost.fixed_cost_ratio:.3f}", "", "besides, however many tokens it has")
    if plan.depth.break_even_token_acceptance is not None:
        yield Figure(
            "break-even", numbers.share(plan.depth.break_even_token_acceptance), "", "acceptance of a token"
        )
    if plan.costs.basis in (Basis.ESTIMATED, Basis.ESTIMATED_BY_WEIGHTS) and plan.wanted.method in SEARCHES:
        yield Note("What verifying and searching usually cost; nothing is drafted by a model.")
    else:
        yield Note(_BASES[plan.costs.basis])


def _depths(plan: Plan) -> Iterator[ReportPart]:
    most = max(1.0, *(depth.speedup for depth in plan.depths))
    rows = [Bar("0", 1 / most, ("1.00", "", ""), _remark(plan, 0), marked=plan.best_tokens == 0)]
    rows += [
        Bar(
            str(depth.tokens),
            depth.speedup / most,
            (
                numbers.plain(depth.speedup),
                f"{_rate(plan, depth.tokens):.3f}",
                _needed(depth.break_even_token_acceptance, depth.tokens),
            ),
            _remark(plan, depth.tokens),
            marked=depth.tokens == plan.best_tokens,
            guessed=plan.wanted.measured is not None and not depth.measured,
        )
        for depth in plan.depths
    ]
    yield Chart("draft tokens", ("speed-up", "rate", "needed"), tuple(rows))
    yield Note(_assumption(plan))
    yield Note(
        "Rate: the share of the draft tokens that is accepted then. Needed: the rate at which it pays."
    )


def _rate(plan: Plan, tokens: int) -> float:
    return sum(plan.drafts.reached[:tokens]) / tokens


def _needed(token_acceptance: float | None, tokens: int) -> str:
    return numbers.NONE if token_acceptance is None else numbers.share(_rate_at(token_acceptance, tokens))


def _assumption(plan: Plan) -> str:
    if plan.wanted.measured is not None:
        return f"Accepted as in the observation, of {_tokens(plan.wanted.measured.tokens)} at a time."
    return (
        f"If each token is accepted with {plan.wanted.acceptance:g}, given those before it (--acceptance). "
        "What yours accepts only a test shows."
    )


def _remark(plan: Plan, tokens: int) -> str:
    remarks = {
        "no speculation": tokens == 0,
        "planned": tokens == plan.wanted.tokens,
        "best": tokens == plan.best_tokens,
        "extrapolated": plan.wanted.measured is not None and tokens > plan.drafts.measured,
    }
    return ", ".join(remark for remark, holds in remarks.items() if holds)


def _payoff(plan: Plan) -> Iterator[ReportPart]:
    found = plan.payoff
    if found is None:
        return
    seen = "as observed" if found.measured else "as estimated"
    span = "" if found.lower is None or found.upper is None else f"{found.lower:.2f} to {found.upper:.2f}"
    yield Figure("speed-up", numbers.plain(found.speedup), span, seen)
    yield Figure("baseline", numbers.rate(found.baseline_tokens_per_second), "", "tokens a second without it")
    yield Figure("gained", _signed(found.gained_tokens_per_second), "", "tokens a second")
    yield Figure("memory", gigabytes(found.memory_bytes), "", "the draft's weights and its KV cache")
    each = found.tokens_per_second_per_gigabyte
    if each is None:
        yield Note("It takes no memory of the GPUs: whatever it gains is free of that.")
        return
    bounds = found.bounds
    yield Figure(
        "return",
        _signed(each),
        "" if bounds is None else f"{_signed(bounds[0])} to {_signed(bounds[1])}",
        "tokens a second gained for each GB",
    )


def _signed(value: float) -> str:
    return numbers.rate(value) if value >= 0 else f"-{numbers.rate(-value)}"


def _cautions(plan: Plan) -> Iterator[Note]:
    return (Note(each.text, each.name, Tone.BAD) for each in cautions(plan))


_SECTIONS: Final[Mapping[str, Callable[[Plan], Iterator[ReportPart]]]] = {
    "What is missing": _missing,
    "Beware": _cautions,
    "Weights": _weights,
    "KV cache": _cache,
    "Cost": _cost,
    "How many tokens to draft": _depths,
    "Return": _payoff,
}
"""The sections in their order."""
