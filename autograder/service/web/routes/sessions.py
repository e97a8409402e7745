"""Logging in and out, and the browsers that are logged in.

A browser is logged in by a token in a form, or by a link with a code that works once (the
notebook makes one). The link itself changes nothing, unless a page of this same machine led here:
it answers with a page that says whom it would log in, and the button there sends the code. So no
other site can log a visitor in as somebody else by leading them here. Where it does log in, it
answers with a page that leads on by itself instead of a redirect: a browser that came from
elsewhere does not send a `SameSite=Strict` cookie along a redirect, and does from a page of ours.
"""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from autograder.service.errors import Refused
from autograder.service.identity.sign_in import COOKIE, Asked, SignIn, seal, unseal
from autograder.service.records.people import INSTRUCTOR, Person
from autograder.service.web import access, views
from autograder.service.web.course import Course
from autograder.service.web.forms import Fields


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the ways in, the way out, and what a person may know of their sessions."""
    _add_sessions(api, pages, course)
    _add_login(pages, course)
    _add_links(pages, course)
    if course.sign_in is not None:
        _add_sign_in(pages, course, course.sign_in)


def _add_sessions(api: APIRouter, pages: APIRouter, course: Course) -> None:
    @api.post("/login-codes", status_code=201)
    def make_code(person: access.Caller) -> dict[str, str]:
        return {
            "code": course.store.roster.give_token(person, "code", lives_s=course.settings.code_s)
        }

    @api.get("/sessions")
    def list_sessions(person: access.Caller) -> dict[str, Any]:
        return {"sessions": [views.session(s) for s in course.store.roster.sessions(person)]}

    @api.delete("/sessions/{key}", status_code=204)
    def end(person: access.Caller, key: str) -> None:
        if not course.store.roster.end_session(person, key):
            raise Refused(404, f"sessions: you have none called {key[:20]!r}.")

    @pages.get("/sessions")
    def show_sessions(request: Request, person: access.Visitor) -> Response:
        here = access.session_of(request, course).partition(".")[0]
        open_sessions = course.store.roster.sessions(person)
        return course.page("sessions", person=person, sessions=open_sessions, here=here)

    @pages.post("/sessions/{key}/end")
    def end_and_show(person: access.Sender, key: str) -> Response:
        course.store.roster.end_session(person, key)
        return RedirectResponse("/sessions", 303)


def _add_login(pages: APIRouter, course: Course) -> None:
    @pages.get("/")
    def lead_home(person: access.Visitor) -> Response:
        return RedirectResponse("/today" if person.is_staff else "/submissions", 303)

    elsewhere = course.sign_in.title if course.sign_in else ""

    @pages.get("/login")
    def show_login(next: str = "/", unsent: bool = False) -> Response:
        problem = _UNSENT if unsent else ""
        target = access.own_path(next)
        return course.page("login", next=target, problem=problem, elsewhere=elsewhere)

    @pages.post("/login")
    def log_in(request: Request, _ours: access.OwnForm, form: Fields) -> Response:
        target = access.own_path(form.get("next", "/"))
        person = course.store.roster.owner(form.get("token", "").strip(), "bearer")
        if person is None:
            access.count_wrong_token(request, course)
            problem = "This token is not known here, or not any more. Copy the whole of it. "
            problem += "One that has ended, or was renewed, your instructor can replace."
            if course.others or course.name:
                problem += " Each course of this server knows its own people alone."
            return course.page("login", 401, next=target, problem=problem, elsewhere=elsewhere)
        return access.log_in(request, RedirectResponse(target, 303), person, course)

    @pages.post("/logout")
    def log_out(request: Request, _ours: access.OwnForm) -> Response:
        answer = RedirectResponse("/login", 303)
        access.log_out(request, answer, course)
        return answer


_UNSENT = (
    "You are not logged in any more, and what you sent was not stored. Log in, then go back in "
    "your browser to the page where you wrote it, and send it again."
)


def _add_links(pages: APIRouter, course: Course) -> None:
    @pages.get("/enter")
    def ask_or_enter(request: Request, code: str = "", next: str = "/") -> Response:
        person, here = (
            course.store.roster.owner(code, "code"),
            access.find_logged_in(request, course),
        )
        target = access.own_path(next)
        if person is None or (here is not None and here.id == person.id):
            message = "You are logged in." if here else "This link has been used already."
            return course.page("onward", next=target, message=message)
        if access.from_this_machine(request) and course.store.roster.spend(code, "code"):
            return access.log_in(request, course.onward(target), person, course)
        return course.page("enter", next=target, code=code, whom=person.name, here=here)

    @pages.post("/enter")
    def enter(request: Request, _ours: access.OwnForm, form: Fields) -> Response:
        person = course.store.roster.spend(form.get("code", ""), "code")
        target = access.own_path(form.get("next", "/"))
        if person is None:
            access.count_wrong_token(request, course)
            message = "This link has been used already."
            return course.page("onward", 401, next=target, message=message)
        return access.log_in(request, RedirectResponse(target, 303), person, course)


def _add_sign_in(pages: APIRouter, course: Course, sign_in: SignIn) -> None:
    @pages.get("/signin")
    def send_away(next: str = "/") -> Response:
        url, attempt = sign_in.away(access.own_path(next))
        answer = RedirectResponse(url, 303)
        lives_s = course.settings.code_s
        answer.set_cookie(
            COOKIE,
            seal(vars(attempt), course.store.cookie_key, COOKIE, lives_s),
            max_age=int(lives_s),
            path="/signin",
            secure=course.url.startswith("https://"),
            httponly=True,
            samesite="lax",  # it has to come along when the other site leads back
        )
        return answer

    @pages.get("/signin/return")
    def take_back(request: Request, code: str = "", state: str = "") -> Response:
        with access.count_refusals(request, course):
            held = request.cookies.get(COOKIE, "")
            attempt = Asked(**unseal(held, course.store.cookie_key, COOKIE, state))
            person = _find_on_roster(course, sign_in.back(code, attempt))
        onward = course.onward(access.own_path(attempt.next))
        answer = access.log_in(request, onward, person, course)
        answer.delete_cookie(COOKIE, path="/signin")
        return answer


def _find_on_roster(course: Course, login: str) -> Person:
    person = course.store.roster.find(login)
    # The first instructor is whoever holds the token, not whoever is called so elsewhere.
    if person is None or person.login != login or login == INSTRUCTOR:
        raise Refused(403, f"log in: {login[:100]!r} is not on the roster. Ask your instructor.")
    return person
