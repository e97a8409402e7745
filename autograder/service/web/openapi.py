"""What the routes' signatures do not say of the interface: bodies, and who may ask. Plain data."""

from typing import Any

from autograder.service.records import rules


def _body(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_JSON = "application/json"
_TEXT: dict[str, Any] = {"type": "string"}
_TIME: dict[str, Any] = {"type": ["string", "null"], "format": "date-time"}
_TOKEN = {"login": _TEXT, "name": _TEXT, "renew": {"type": "boolean"}, "expires": _TIME}
_MARK = _object(
    points={"type": ["number", "null"], "minimum": 0},
    items={"type": "array", "items": _TEXT},
    comment=_TEXT,
)
_NOTEBOOK = _object(lab=_TEXT, notebook={**_TEXT, "format": "binary"})

ENROLMENT = _body(_JSON, _object(**_TOKEN))
STAFF = _body(_JSON, _object(**_TOKEN, role={"enum": ["instructor", "assistant"]}))
EXTENSION = _body(_JSON, _object(due=_TIME))
FACTOR = _body(_JSON, _object(factor={"type": "number", "minimum": 1, "maximum": 10}))
_KINDS = {"enum": ["token", "link"]}
TOKENS = _body(_JSON, _object(kind=_KINDS, section=_TEXT, renew={"type": "boolean"}))
RULES = _body(_JSON, rules.RULES.json_schema())
_MARKS = {"type": "object", "additionalProperties": {**_MARK, "additionalProperties": False}}
MARKS = _body(_JSON, _MARKS)
MARK = _body(_JSON, _MARK)
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
GROUP = _body(_JSON, _object(submissions=_NUMBERS, mark=_MARK))
ASSIGNMENT = _body(_JSON, _object(login=_TEXT, lab=_TEXT, question=_TEXT, section=_TEXT))
COMMENT = _body(_JSON, _object(item=_TEXT, text=_TEXT))
SAMPLE = _body(_JSON, _object(size={"type": "integer", "minimum": 1, "maximum": 500}))
DECISION = _body(_JSON, _object(take={"enum": ["first", "second"]}))
_SEEN = {"type": "integer", "minimum": 0}
REQUEST = _body(
    _JSON,
    _object(question=_TEXT, text=_TEXT, points={"type": ["number", "null"]}, seen=_SEEN),
)
SHIFT = _body(_JSON, _object(weeks={"type": "integer", "minimum": -104, "maximum": 104}))
_WEEKS = {"type": "integer", "minimum": -520, "maximum": 520}
TERM = _body(_JSON, _object(term={"type": "object"}, start=_TEXT, weeks=_WEEKS, zone=_TEXT))
_POINTS: dict[str, Any] = {"type": ["number", "null"], "minimum": 0}
GRADE = _body(
    _JSON, _object(excused={"type": "boolean"}, points=_POINTS, max_score=_POINTS, comment=_TEXT)
)
_WEIGHTS = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}
HELD = _body(_JSON, _object(held={"type": "boolean"}))
ANNOUNCEMENT = _body(_JSON, _object(text=_TEXT, section=_TEXT, starts=_TIME, ends=_TIME))
RULE = _body(_JSON, _object(drop_lowest={"type": "integer", "minimum": 0}, weights=_WEIGHTS))
CSV = _body("text/csv", {**_TEXT, "description": "login,name,email,..."})
SUBMISSION = _body("multipart/form-data", {**_NOTEBOOK, "required": ["lab", "notebook"]})


def _answers(*kinds: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": "Done.", "content": {kind: {} for kind in kinds}}}


# For routes whose answer is no JSON, or not always.
EXPORT = _answers("text/csv", "application/json")
NOTEBOOK = _answers("application/x-ipynb+json")
METRICS = _answers("text/plain")
CALENDAR = _answers("text/calendar")

_REFUSED = {
    "description": "Refused: what was wrong, in `detail`.",
    "content": {_JSON: {"schema": {**_object(detail=_TEXT), "required": ["detail"]}}},
}


def complete_description(description: dict[str, Any]) -> dict[str, Any]:
    """Return FastAPI's description with the bearer token and the refusals in it."""
    schemes = description.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["bearer"] = {"type": "http", "scheme": "bearer"}
    for path, operations in description["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["4XX"] = _REFUSED
            operation["responses"]["5XX"] = _REFUSED
            if path.startswith("/api/"):
                operation["security"] = [{"bearer": []}]
    return description
