import pytest

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.reports.exit_status import ExitStatus, observation_status
from tests.fakes.references import observation


def engine(verdict=Verdict.HEALTHY, state=State.ACTIVE, speedup=1.5, request=None):
    (one,) = observation("steady").engines
    window = one.windows[-1]
    estimated = window.estimated_speedup_ratio.model_copy(update={"value": speedup})
    whole = request and window.end_to_end_speedup_ratio.model_copy(update={"value": request})
    window = window.model_copy(
        update={"estimated_speedup_ratio": estimated, "end_to_end_speedup_ratio": whole}
    )
    return one.model_copy(update={"verdict": verdict, "state": state, "windows": (window,)})


def status(*engines, targets=()):
    view = observation("steady")
    return observation_status(
        view.model_copy(update={"engines": engines, "targets": targets or view.targets})
    )


@pytest.mark.parametrize(
    ("verdict", "speedup", "request_speedup", "expected"),
    [
        (Verdict.OPTIMAL, 2.2, None, ExitStatus.GOOD),
        (Verdict.HEALTHY, None, None, ExitStatus.GOOD),
        (Verdict.POOR, 1.0, None, ExitStatus.GOOD),
        (Verdict.POOR, 0.99, None, ExitStatus.UNKNOWN),
        (Verdict.POOR, 1.9, 1.0, ExitStatus.GOOD),
        (Verdict.POOR, 1.9, 0.99, ExitStatus.UNKNOWN),
        (Verdict.HARMFUL, 0.7, None, ExitStatus.BAD),
        (Verdict.INSUFFICIENT, 2.0, None, ExitStatus.UNKNOWN),
    ],
)
def test_the_verdict_and_the_speedup_of_requests_determine_the_status(
    verdict, speedup, request_speedup, expected
):
    assert status(engine(verdict, speedup=speedup, request=request_speedup)) is expected


@pytest.mark.parametrize("verdict", [Verdict.OPTIMAL, Verdict.POOR])
def test_a_verdict_without_bounds_is_unknown(verdict):
    one = engine(verdict, speedup=2.0)
    length = one.windows[-1].acceptance_length_tokens.model_copy(update={"lower": None, "upper": None})
    window = one.windows[-1].model_copy(update={"acceptance_length_tokens": length})
    assert status(one) is ExitStatus.GOOD
    assert status(one.model_copy(update={"windows": (window,)})) is ExitStatus.UNKNOWN


def test_the_worst_counts():
    good, bad = engine(), engine(Verdict.HARMFUL)
    unknown, gone = engine(Verdict.INSUFFICIENT), engine(state=State.UNREACHABLE)
    assert status(good, unknown) is ExitStatus.UNKNOWN
    assert status(good, unknown, gone) is ExitStatus.FAILED
    assert status(good, unknown, gone, bad) is ExitStatus.BAD


def test_a_missing_server_fails_whatever_the_verdict_of_the_others():
    (target,) = observation("steady").targets
    absent = target.model_copy(update={"engines": ()})
    assert status(engine(), targets=(target, absent)) is ExitStatus.FAILED
    assert status(engine(Verdict.HARMFUL), targets=(target, absent)) is ExitStatus.BAD


def test_an_engine_without_speculation_counts_only_if_no_other_speculates():
    off = engine(Verdict.INSUFFICIENT, State.DISABLED)
    assert status(off, engine()) is ExitStatus.GOOD
    assert status(off) is ExitStatus.UNKNOWN
