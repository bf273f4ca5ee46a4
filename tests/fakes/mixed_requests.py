"""Requests of the simulated mix in a store, for the page and its pictures."""

from __future__ import annotations

from spec_decode_exporter.config.schema import RequestSettings
from spec_decode_exporter.requests.record import RequestRecord
from spec_decode_exporter.requests.store import RequestFindings, RequestStore
from spec_decode_exporter.simulator.scenario import load_scenario
from spec_decode_exporter.simulator.simulated_request import Answer
from spec_decode_exporter.simulator.simulation import Simulation
from tests.fakes.costs import make_cost


async def mixed_requests(seconds: float = 320.0, **changes: object) -> RequestFindings:
    """Return the findings about requests of the scenario ``mixed`` after some seconds."""
    scenario = load_scenario("mixed")
    answers: list[tuple[float, Answer]] = []
    simulation = Simulation(scenario, 0, lambda answer: answers.append((simulation.now, answer)))
    board = RequestStore(RequestSettings(ingest=True))
    begin = 1000.0
    while simulation.now < seconds:
        simulation.advance(1.0)
    cost = make_cost(scenario.speculation.cost, 0.0)
    for moment, answer in answers:
        metrics = answer["metrics"]
        said = metrics["speculative_decoding"]
        kept = {
            "model_name": answer["model"],
            "drafts": said["num_spec_steps"],
            "draft_tokens": said["num_draft_tokens"],
            "accepted_tokens": said["num_accepted_draft_tokens"],
            "tokens": said["num_spec_tokens"],
            "request_type": answer.get("request_type", ""),
            "temperature": answer.get("temperature"),
            "completion_tokens": answer["usage"]["completion_tokens"],
            "decode_seconds": metrics["generation_time_ms"] / 1000,
            "first_token_seconds": metrics["time_to_first_token_ms"] / 1000,
            "prompt_tokens": answer["usage"]["prompt_tokens"],
            "cached_tokens": answer["usage"]["prompt_tokens_details"]["cached_tokens"],
        }
        board.take(RequestRecord(**{**kept, **changes}), begin + moment, cost)
    return await board.findings((30.0, 300.0), begin + seconds)
