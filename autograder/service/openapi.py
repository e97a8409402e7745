"""What the routes' signatures do not say of the interface: bodies, and who may ask. Plain data."""

from typing import Any


def _json(**properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_TEXT: dict[str, Any] = {"type": "string"}
_TIME: dict[str, Any] = {"type": ["string", "null"], "format": "date-time"}
_TOKEN: dict[str, Any] = {
    "login": _TEXT,
    "name": _TEXT,
    "renew": {"type": "boolean"},
    "expires": _TIME,
}

ENROLMENT = _json(**_TOKEN)
STAFF = _json(**_TOKEN, role={"enum": ["instructor", "assistant"]})
EXTENSION = _json(due=_TIME)
RULES = _json(
    opens=_TIME,
    due=_TIME,
    late_until=_TIME,
    penalty_per_day={"type": "number", "minimum": 0, "maximum": 1},
    attempts={"type": ["integer", "null"], "minimum": 1},
    grace_minutes={"type": "number", "minimum": 0},
    solutions={"type": "boolean"},
    leaderboard={"type": "boolean"},
)
CSV = {
    "requestBody": {
        "required": True,
        "content": {"text/csv": {"schema": {**_TEXT, "description": "login,name,email,..."}}},
    }
}
_MARK = {
    "type": "object",
    "properties": {
        "points": {"type": ["number", "null"], "minimum": 0},
        "items": {"type": "array", "items": _TEXT},
        "comment": _TEXT,
    },
    "additionalProperties": False,
}
MARKS = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object", "additionalProperties": _MARK}}
        },
    }
}
SUBMISSION = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"lab": _TEXT, "notebook": {**_TEXT, "format": "binary"}},
                    "required": ["lab", "notebook"],
                }
            }
        },
    }
}


def _answers(*kinds: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": "Done.", "content": {kind: {} for kind in kinds}}}


# For routes whose answer is no JSON, or not always.
EXPORT = _answers("text/csv", "application/json")
NOTEBOOK = _answers("application/x-ipynb+json")
METRICS = _answers("text/plain")

_REFUSED = {
    "description": "Refused: what was wrong, in `detail`.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"detail": _TEXT},
                "required": ["detail"],
            }
        }
    },
}


def completed(found: dict[str, Any]) -> dict[str, Any]:
    """Return FastAPI's description with the bearer token and the refusals in it."""
    schemes = found.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["bearer"] = {"type": "http", "scheme": "bearer"}
    for path, operations in found["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["4XX"] = _REFUSED
            operation["responses"]["5XX"] = _REFUSED
            if path.startswith("/api/"):
                operation["security"] = [{"bearer": []}]
    return found
