"""The list of the courses on a server that has several, at its root."""

from fastapi.responses import RedirectResponse, Response

from autograder.service.errors import Refused
from autograder.service.records.roster import enrolment
from autograder.service.web.below import FOLDER
from autograder.service.web.course import Course
from autograder.service.web.late_routes import LateRouter
from autograder.service.web.page import page

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def router(course: Course) -> LateRouter:
    """Return the routes of the server whose first course this is; they go before those of it."""
    routes = LateRouter(include_in_schema=False)

    @routes.get("/")
    def list_courses() -> Response:
        counts = enrolment.counts(course.store.database)
        used = sum(counts.values()) > 1  # by anybody but the instructor whom every course has
        return page("courses", courses=course.others.values(), first=course if used else None)

    @routes.get(FOLDER)
    def lead_home() -> Response:
        return RedirectResponse("/", 303)

    @routes.api_route(f"{FOLDER}/{{name}}", methods=_METHODS)
    @routes.api_route(f"{FOLDER}/{{name}}/{{rest:path}}", methods=_METHODS)
    def lead_on(name: str) -> Response:
        if name not in course.others:
            raise Refused(404, f"there is no course {name[:60]!r} on this server.")
        return RedirectResponse(f"{FOLDER}/{name}/", 303)

    return routes
