"""How the server is doing: for staff, for a monitor that asks `/healthz`, and for Prometheus."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from autograder.service import auth, openapi
from autograder.service.course import Course


def router(course: Course) -> APIRouter:
    """Return the routes of the queue's state."""
    routes = APIRouter()

    @routes.get("/healthz")
    def healthz() -> dict[str, Any]:
        found = state(course)
        return {"status": "paused" if found["paused"] else "ok", "reason": found["reason"]}

    @routes.get("/metrics", response_class=Response, responses=openapi.METRICS)
    def metrics() -> Response:
        return PlainTextResponse(prometheus(course), media_type="text/plain; version=0.0.4")

    @routes.get("/api/queue")
    def queue(request: Request) -> dict[str, Any]:
        auth.staff_bearer(request, course)
        return state(course)

    @routes.post("/api/queue/resume")
    def resume(request: Request) -> dict[str, Any]:
        auth.staff_bearer(request, course)
        course.queue.resume()
        return state(course)

    @routes.post("/api/parked/retry")
    def retry(request: Request) -> dict[str, Any]:
        auth.staff_bearer(request, course)
        return {"retried": retry_parked(course)}

    return routes


def state(course: Course) -> dict[str, Any]:
    """Return what waits, what is graded, what is paused and why, and what is parked."""
    reasons = course.queue.reasons()  # first: what a pause holds waits by the time that it is seen
    waiting = course.claims.waiting()
    reason = "; ".join(f"{lab}: {why}" for lab, why in reasons.items())
    return {
        "waiting": waiting.waiting,
        "grading": waiting.grading,
        "oldest_s": round(waiting.oldest_s, 3),
        "paused": bool(reasons),
        "reason": reason or None,
        "labs": reasons,
        "parked": [
            {"id": e.id, "login": e.learner, "lab": e.lab, "reason": e.reason, "tries": e.tries}
            for e in course.ledger.parked()
        ],
        "passback": course.lti.passback.outbox.waiting() if course.lti else None,
    }


def retry_parked(course: Course) -> int:
    """Send everything that is parked through the queue again; return how many there were."""
    retried = course.claims.retry_parked()
    course.queue.wake()
    return retried


def prometheus(course: Course) -> str:
    """Return the state of the queue in Prometheus's text format.

    Source: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
    """
    tally, reasons = course.queue.tally, course.queue.reasons()
    waiting = course.claims.waiting()
    lines = [
        *_metric("submissions_waiting", "gauge", "Submissions that wait.", waiting.waiting),
        *_metric("submissions_grading", "gauge", "Submissions being graded.", waiting.grading),
        *_metric("submissions_parked", "gauge", "Submissions put aside.", waiting.parked),
        *_metric("oldest_seconds", "gauge", "How long the first has waited.", waiting.oldest_s),
        *_metric("queue_paused", "gauge", "Labs that cannot be graded now.", len(reasons)),
    ]
    lines += ["# HELP course_lab_paused Why a lab is paused.", "# TYPE course_lab_paused gauge"]
    lines += [
        f'course_lab_paused{{lab="{_label(lab)}",reason="{_label(why)}"}} 1'
        for lab, why in reasons.items()
    ]
    lines += _metric("grading_seconds_total", "counter", "Time of gradings.", tally.graded_s)
    lines += [
        "# HELP course_gradings_total How gradings ended.",
        "# TYPE course_gradings_total counter",
    ]
    lines += [
        f'course_gradings_total{{outcome="{outcome}"}} {count}'
        for outcome, count in tally.outcomes.items()
    ]
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, says: str, value: float) -> list[str]:
    name = f"course_{name}"
    return [f"# HELP {name} {says}", f"# TYPE {name} {kind}", f"{name} {value:g}"]


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
