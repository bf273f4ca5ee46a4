"""What a request may ask for: one model for each, unknown parameters refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar, get_origin

from multidict import MultiMapping
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.units import DURATION_PATTERN, parse_duration
from spec_decode_exporter.monitor.event_log import EVENT_ID
from spec_decode_exporter.monitor.log_events import EVENT_TYPES
from spec_decode_exporter.views.models import EventView
from spec_decode_exporter.web.api.problems import RequestError

MOST_EVENTS: Final = 1000
"""Events of one answer: as many as are kept."""
MOST_PARAMETERS: Final = 128
"""Parameters of a request, repeated ones included: each value is compared with every engine."""
_LONGEST_NAME: Final = 100
"""Characters that an answer repeats of a parameter's name."""
_LABEL: Final = "[A-Za-z_][A-Za-z0-9_]*"
_LEAST_SECONDS: Final = 0.001


class ApiQuery(BaseModel):
    """What all have in common. Parameters that may be repeated mean any of their values."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _else(problem: str) -> WrapValidator:
    """Say in these words what is wrong, whatever is: they stand after "The parameter … "."""

    def check(value: object, check_value: ValidatorFunctionWrapHandler) -> object:
        try:
            return check_value(value)
        except ValidationError:
            raise ValueError(problem) from None

    return WrapValidator(check)


def _digits(value: str) -> str:
    if not (value.isascii() and value.isdigit()):
        raise ValueError(value)
    return value


Texts = tuple[str, ...]
LabelName = Annotated[
    str,
    StringConstraints(pattern=f"^{_LABEL}$", max_length=100),
    _else("is not the name of a label, such as model_name"),
]
Match = Annotated[
    str, StringConstraints(pattern=f"^{_LABEL}=.*$"), _else("is not name=value, such as zone=eu")
]
EventId = Annotated[str, StringConstraints(pattern=EVENT_ID), _else("is not the id of an event")]
EventType = Annotated[
    str,
    StringConstraints(pattern=f"^({'|'.join(EVENT_TYPES)})$"),
    WithJsonSchema({"type": "string", "enum": list(EVENT_TYPES)}),
    _else(f"is no type of event; there are {', '.join(EVENT_TYPES)}"),
]
AVerdict = Annotated[Verdict, _else(f"is no verdict; there are {', '.join(Verdict)}")]
Limit = Annotated[
    int,
    Field(ge=1, le=MOST_EVENTS),
    BeforeValidator(_digits),
    _else(f"is not a whole number from 1 to {MOST_EVENTS}"),
]
Step = Annotated[
    float,
    Field(ge=_LEAST_SECONDS),
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN}),
    _else("is not a length of time, such as 500ms, 5s or 1m"),
]


class EngineQuery(ApiQuery):
    """Which engines."""

    target: Texts = Field(default=(), description="Only engines of these targets.", examples=[["chat-0"]])
    model: Texts = Field(default=(), description="Only engines of these models, by the label `model_name`.")
    engine: Texts = Field(default=(), description="Only engines with these numbers, by the label `engine`.")
    match: tuple[Match, ...] = Field(
        default=(),
        description="Only engines with this value of a label, as `name=value`; repeated, all must hold. An"
        " engine that lacks the label has it empty.",
        examples=[["zone=eu"]],
    )

    def matched_labels(self) -> Iterator[str]:
        """Yield the names of the labels in ``match``."""
        return (pair.partition("=")[0] for pair in self.match)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether an engine with these labels is asked for."""
        named = {"target": self.target, "model_name": self.model, "engine": self.engine}
        pairs = (pair.partition("=") for pair in self.match)
        return all(not values or labels[name] in values for name, values in named.items()) and all(
            labels.get(name, "") == value for name, _, value in pairs
        )


class SnapshotQuery(EngineQuery):
    """What of the snapshot."""

    verdict: tuple[AVerdict, ...] = Field(default=(), description="Only engines with these verdicts.")
    window: Texts = Field(default=(), description="Only these windows, such as `5m`.", examples=[["5m"]])
    group_by: tuple[LabelName, ...] = Field(
        default=(),
        description="Labels to group the engines by; the groups come beside them.",
        examples=[["model_name"]],
    )


class HistoryQuery(EngineQuery):
    """What of the history."""

    step: Step | None = Field(
        default=None,
        description="The length of a step. Without one there are about 60 steps; there are at most 720.",
        examples=["5s"],
    )


class RequestsQuery(ApiQuery):
    """What of the single requests."""

    window: Texts = Field(default=(), description="Only these windows, such as `5m`.", examples=[["5m"]])
    model: Texts = Field(default=(), description="Only of these models, by the label `model_name`.")
    request_type: Texts = Field(default=(), description="Only of these types.", examples=[["chat"]])
    temperature: Texts = Field(
        default=(), description="Only of these temperatures, by the bucket.", examples=[["to 0.7"]]
    )

    def selects(self, view: object) -> bool:
        """Return whether something is asked for; what is of no type, say, is of all of them."""
        named = {"window": self.window, "model_name": self.model, "request_type": self.request_type}
        named["temperature"] = self.temperature
        return all(not values or getattr(view, name, values[0]) in values for name, values in named.items())


class EventFilter(ApiQuery):
    """Which events."""

    type: tuple[EventType, ...] = Field(
        default=(), description="Only these types.", examples=[["acceptance_dropped"]]
    )
    target: Texts = Field(default=(), description="Only of these targets and their engines.")
    engine_id: Texts = Field(default=(), description="Only of these engines, by their ids.")
    since: EventId | None = Field(
        default=None, description="Only what came after the event with this id.", examples=["19af3c1d2e0-17"]
    )

    def selects(self, event: EventView) -> bool:
        """Return whether an event is asked for."""
        named = ((self.type, event.type), (self.target, event.target), (self.engine_id, event.engine_id))
        return all(not values or value in values for values, value in named)


class EventsQuery(EventFilter):
    """Which events, and how many."""

    limit: Limit = Field(
        default=100,
        description="The most events: the oldest after `since`, or the newest without it.",
        validate_default=False,
    )


Q = TypeVar("Q", bound=ApiQuery)


def read(model: type[Q], parameters: MultiMapping[str]) -> Q:
    """Return what a request asks for.

    Raises:
        RequestError: a parameter is unknown, wrong, or given twice; all of them are named.
    """
    if len(parameters) > MOST_PARAMETERS:
        detail = f"The request has {len(parameters)} parameters; at most {MOST_PARAMETERS} are read."
        raise RequestError(HTTPStatus.BAD_REQUEST, detail)
    given: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    for name in dict.fromkeys(parameters):
        values = list(dict.fromkeys(parameters.getall(name)))
        field = model.model_fields.get(name)
        if field is None:
            known = ", ".join(model.model_fields) or "none"
            wrong.append((name[:_LONGEST_NAME], f"is not known here; known are {known}"))
        elif get_origin(field.annotation) is tuple:
            given[name] = values
        elif len(parameters.getall(name)) > 1:
            wrong.append((name, "is given more than once"))
        else:
            given[name] = values[0]
    try:
        query = model.model_validate(given)
    except ValidationError as error:
        found = {str(each["loc"][0]): each["msg"].removeprefix("Value error, ") for each in error.errors()}
        wrong += found.items()
    if wrong:
        detail = " ".join(f"The parameter {name} {problem}." for name, problem in wrong)
        raise RequestError(HTTPStatus.BAD_REQUEST, detail, wrong)
    return query
