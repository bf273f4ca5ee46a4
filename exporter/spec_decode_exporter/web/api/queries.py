"""Query parameters: one model per endpoint. Unknown parameters are rejected."""

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
from spec_decode_exporter.config.types import DURATION_PATTERN, parse_duration
from spec_decode_exporter.monitor.event_log import EVENT_ID, MAX_EVENTS, RecordedEvent
from spec_decode_exporter.monitor.events import EVENT_TYPES
from spec_decode_exporter.views.history import DEFAULT_STEPS, MAX_STEPS
from spec_decode_exporter.web.api.problems import RequestError

MAX_PARAMETERS: Final = 128
"""Parameters of a request, including repeated ones: each value is compared with every engine."""
_MAX_NAME_LENGTH: Final = 100
"""Characters of a parameter's name that an error response repeats."""
_LABEL: Final = "[A-Za-z_][A-Za-z0-9_]*"
_MAX_LABEL_LENGTH: Final = 100
_MIN_STEP: Final = 0.001
"""Seconds."""


class ApiQuery(BaseModel):
    """Parameters of every endpoint: none. A repeated parameter selects any of its values."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def _or_error(problem: str) -> WrapValidator:
    """Replace the text of any error; it follows "The parameter … "."""

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
    StringConstraints(pattern=f"^{_LABEL}$", max_length=_MAX_LABEL_LENGTH),
    _or_error("is not a label name, such as model_name"),
]
Match = Annotated[
    str, StringConstraints(pattern=f"^{_LABEL}=.*$"), _or_error("is not name=value, such as zone=eu")
]
EventId = Annotated[str, StringConstraints(pattern=EVENT_ID), _or_error("is not the id of an event")]
EventType = Annotated[
    str,
    StringConstraints(pattern=f"^({'|'.join(EVENT_TYPES)})$"),
    WithJsonSchema({"type": "string", "enum": list(EVENT_TYPES)}),
    _or_error(f"is not an event type; there are {', '.join(EVENT_TYPES)}"),
]
VerdictName = Annotated[Verdict, _or_error(f"is not a verdict; there are {', '.join(Verdict)}")]
Limit = Annotated[
    int,
    Field(ge=1, le=MAX_EVENTS),
    BeforeValidator(_digits),
    _or_error(f"is not a whole number from 1 to {MAX_EVENTS}"),
]
Step = Annotated[
    float,
    Field(ge=_MIN_STEP),
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN}),
    _or_error("is not a duration, such as 500ms, 5s or 1m"),
]


class EngineQuery(ApiQuery):
    """Selection of engines."""

    target: Texts = Field(default=(), description="Only engines of these targets.", examples=[["chat-0"]])
    model: Texts = Field(default=(), description="Only engines of these models, by the label `model_name`.")
    engine: Texts = Field(default=(), description="Only engines with these numbers, by the label `engine`.")
    match: tuple[Match, ...] = Field(
        default=(),
        description="Only engines with this value of a label, as `name=value`. If repeated, all must match."
        " A label that an engine lacks is empty.",
        examples=[["zone=eu"]],
    )

    def matched_labels(self) -> Iterator[str]:
        """Yield the names of the labels in ``match``."""
        return (pair.partition("=")[0] for pair in self.match)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether an engine with these labels is selected."""
        selected = {"target": self.target, "model_name": self.model, "engine": self.engine}
        pairs = (pair.partition("=") for pair in self.match)
        return all(not values or labels[name] in values for name, values in selected.items()) and all(
            labels.get(name, "") == value for name, _, value in pairs
        )


class SnapshotQuery(EngineQuery):
    """Parameters of the snapshot."""

    verdict: tuple[VerdictName, ...] = Field(default=(), description="Only engines with these verdicts.")
    window: Texts = Field(default=(), description="Only these windows, such as `5m`.", examples=[["5m"]])
    group_by: tuple[LabelName, ...] = Field(
        default=(),
        description="Labels to group the engines by. The response has groups and engines.",
        examples=[["model_name"]],
    )


class HistoryQuery(EngineQuery):
    """Parameters of the history."""

    step: Step | None = Field(
        default=None,
        description=f"Duration of a step, at least {_MIN_STEP * 1000:.0f} ms. The default makes about"
        f" {DEFAULT_STEPS} steps; the maximum is {MAX_STEPS} steps.",
        examples=["5s"],
    )


class RequestsQuery(ApiQuery):
    """Parameters of the findings of single requests."""

    window: Texts = Field(default=(), description="Only these windows, such as `5m`.", examples=[["5m"]])
    model: Texts = Field(default=(), description="Only these models, by the label `model_name`.")
    request_type: Texts = Field(default=(), description="Only these request types.", examples=[["chat"]])
    temperature: Texts = Field(
        default=(), description="Only these temperatures, by bucket.", examples=[["0.3-0.7"]]
    )

    def selects(self, view: object) -> bool:
        """Return whether an item is selected. An item without a type, for example, matches all types."""
        selected = {"window": self.window, "model_name": self.model, "request_type": self.request_type}
        selected["temperature"] = self.temperature
        return all(
            not values or getattr(view, name, values[0]) in values for name, values in selected.items()
        )


class EventsQuery(ApiQuery):
    """Selection of events, and their number."""

    type: tuple[EventType, ...] = Field(
        default=(), description="Only these types.", examples=[["acceptance_dropped"]]
    )
    target: Texts = Field(default=(), description="Only events of these targets and their engines.")
    engine_id: Texts = Field(default=(), description="Only events of these engines, by their ids.")
    since: EventId | None = Field(
        default=None, description="Only events after the event with this id.", examples=["19af3c1d2e0-17"]
    )
    limit: Limit = Field(
        default=100,
        description="Maximum number of events: the oldest after `since`, or the newest without `since`.",
        validate_default=False,
    )

    def selects(self, event: RecordedEvent) -> bool:
        """Return whether an event is selected."""
        selected = ((self.type, event.type), (self.target, event.target), (self.engine_id, event.engine_id))
        return all(not values or value in values for values, value in selected)


Q = TypeVar("Q", bound=ApiQuery)


def read(model: type[Q], parameters: MultiMapping[str]) -> Q:
    """Return the validated parameters of a request.

    Raises:
        RequestError: A parameter is unknown, invalid, or repeated; the error names all of them.
    """
    if len(parameters) > MAX_PARAMETERS:
        detail = f"The request has {len(parameters)} parameters; the maximum is {MAX_PARAMETERS}."
        raise RequestError(HTTPStatus.BAD_REQUEST, detail)
    raw: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    for name in dict.fromkeys(parameters):
        values = list(dict.fromkeys(parameters.getall(name)))
        field = model.model_fields.get(name)
        if field is None:
            known = ", ".join(model.model_fields) or "none"
            wrong.append((name[:_MAX_NAME_LENGTH], f"is unknown; there are {known}"))
        elif get_origin(field.annotation) is tuple:
            raw[name] = values
        elif len(parameters.getall(name)) > 1:
            wrong.append((name, "is repeated"))
        else:
            raw[name] = values[0]
    try:
        query = model.model_validate(raw)
    except ValidationError as error:
        invalid = {str(each["loc"][0]): each["msg"].removeprefix("Value error, ") for each in error.errors()}
        wrong += invalid.items()
    if wrong:
        detail = " ".join(f"The parameter {name} {problem}." for name, problem in wrong)
        raise RequestError(HTTPStatus.BAD_REQUEST, detail, wrong)
    return query
