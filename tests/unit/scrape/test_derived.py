"""Counters that follow from others: the smallest pages of real servers with their right values."""

import pytest

from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS
from spec_decode_exporter.scrape.derived import steps_of
from spec_decode_exporter.scrape.engines import Counter
from spec_decode_exporter.scrape.sample import SampleReader
from tests.paths import DATA

MINIMAL = DATA / "pages" / "minimal"


def only(page):
    page = page if isinstance(page, bytes) else (MINIMAL / page).read_bytes()
    (sample,) = SampleReader().read(page, with_latencies=True).samples.values()
    return sample


TIME = Counter.DECODE_NANOSECONDS
COUNTED = Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS


@pytest.mark.parametrize(
    ("page", "counts"),
    [
        # Of 8,903 tokens 112 were accepted drafts: 8,791 steps, of which 107 drafted.
        ("llamacpp-few-drafts.prom", (107, 112, 112, 8903 - 112)),
        # Accepted tokens by position have all digits, the others six.
        ("llamacpp-rounded-before.prom", (68_470_500, 270_279_000, 63_065_309 + 59_160_692, 300_466_000 - 122_226_001)),
        ("llamacpp-position-128.prom", (246, 6241, 165, 6202 - 165)),
        # The responses proposed 90,544 tokens: K is 4, since one of five verified tokens is no draft.
        ("sglang-ngram-steps.prom", (22_636, 90_544, 57_407 - 390 - 22_636, None)),
        ("lmdeploy-steps.prom", (22_254, 89_016, 53_260, 22_254)),
    ],
)  # fmt: skip
def test_the_counters_of_the_smallest_pages_are_right(page, counts):
    sample = only(page)
    assert tuple(sample[counter] for counter in (*COUNTED, Counter.DECODE_STEPS)) == counts


def test_the_decode_time_of_sglang_is_that_after_the_first_token_whether_requests_stream_or_not():
    """Its inter-token latencies have 19,953 of 57,076 tokens, since most requests did not stream."""
    sample = only("sglang-not-streaming-times.prom")
    decoded = 57_467 - 391
    assert sample[TIME] == round(1e9 * (541.6385469689972 - 9.812464120501318))
    assert sample[TIME] / 1e6 / decoded == pytest.approx(9.32, abs=0.005)


def test_the_decode_time_of_llamacpp_is_that_of_its_responses_and_cached_prompts_are_prompts():
    page = b"".join(
        b"llamacpp:%s %s\n" % (name, value)
        for name, value in {
            b"tokens_predicted_total": b"12195",
            b"tokens_predicted_seconds_total": b"61.2546",
            b"prompt_tokens_total": b"4873",
            b"prompt_tokens_cached_total": b"49",
            b"prompt_seconds_total": b"1.32211",
        }.items()
    )
    sample = only(page)
    prompts = Counter.PROMPT_TOKENS, Counter.PREFIX_CACHE_QUERIES, Counter.PREFIX_CACHE_HITS
    assert (sample[TIME], sample[Counter.FIRST_TOKEN_NANOSECONDS]) == (61_254_600_000, 1_322_110_000)
    assert [sample[counter] for counter in prompts] == [4922, 4922, 49]


@pytest.mark.parametrize(("cap", "drafted"), [(4.5, 140), (0.0, 280), (1.0, 280), (None, 280)])
def test_the_draft_tokens_of_a_capped_verification_are_those_of_the_cap(cap, drafted):
    """DSpark verifies 4.5 tokens on average, one of which is no draft, of a block of 7 drafts."""
    gauges = {"spec_num_draft_tokens": 8, "spec_num_steps": 0, "spec_cap_length": cap}
    page = "".join(f"sglang:{name} {value}\n" for name, value in gauges.items() if value is not None)
    page += (
        "sglang:spec_verify_calls_total 40\nsglang:generation_tokens_total 200\nsglang:num_requests_total 1\n"
    )
    assert only(page.encode())[Counter.DRAFT_TOKENS] == drafted


def test_tensorrt_llms_counters_of_iterations_count_only_where_ended_requests_have_none_by_position():
    labels = 'engine_type="trtllm",model_name="m"'
    for ended, positions, counts in (
        (5, (), (None, 400, 150)),
        (5, ((100, 60), (100, 30)), (100, 200, 90)),  # a backend that counts by position too
        (0, (), (None, None, None)),
    ):
        page = f"trtllm_spec_decode_num_draft_tokens_total{{{labels}}} 400\n"
        page += f"trtllm_spec_decode_num_accepted_tokens_total{{{labels}}} 150\n"
        page += f"trtllm_e2e_request_latency_seconds_count{{{labels}}} {ended}\n"
        for place, (drafted, accepted) in enumerate(positions):
            of = f'{labels},token_position="{place}"'
            page += f"trtllm_spec_decode_drafted_tokens_total{{{of}}} {drafted}\n"
            page += f"trtllm_spec_decode_accepted_tokens_total{{{of}}} {accepted}\n"
        sample = only(page.encode())
        assert tuple(sample[counter] for counter in COUNTED) == counts


def test_positions_beyond_those_that_are_watched_are_left_out_and_their_tokens_are_accepted_ones():
    name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
    places = [0, MAX_POSITIONS - 1, MAX_POSITIONS, 199]
    page = "".join(f'{name}{{position="{place}"}} {place + 1}\n' for place in places)
    sample = only(page.encode() + b"llamacpp:spec_decode_num_accepted_tokens_total 458\n")
    assert sample[Counter.ACCEPTED_TOKENS] == 1 + 128 + 129 + 200
    assert (len(sample.positions), sum(sample.positions)) == (MAX_POSITIONS, 129)


def test_verified_draft_tokens_are_the_draft_tokens_where_vllm_counts_them():
    """It may have drafted more: those are neither accepted nor rejected."""
    page = 'vllm:spec_decode_num_draft_tokens_total{model_name="m"} 700\n'
    verified = 'vllm:spec_decode_num_verified_draft_tokens_total{model_name="m"} 450\n'
    samples = only(page.encode()), only((page + verified).encode())
    assert [each[Counter.DRAFT_TOKENS] for each in samples] == [700, 450]
    assert [each.counts_verified for each in samples] == [False, True]


@pytest.mark.parametrize(
    ("steps", "verified", "tokens"),
    [(3, 8, 3), (5, 5, 4), (3, 4, 3), (1, 16, 15), (0, 5, 4), (None, 5, 4), (3, 1, 3), (3, None, 3), (None, None, None)],
)  # fmt: skip
def test_k_of_sglang_is_the_steps_of_a_tree_and_the_tokens_of_a_block_or_a_search(steps, verified, tokens):
    assert steps_of(steps, verified) == tokens
