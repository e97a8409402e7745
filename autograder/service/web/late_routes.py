"""Routes that FastAPI reads when somebody first comes for them, not when the server starts.

There are some hundred and fifty, each with the parameters of all that it depends on: to read them
all takes most of a start.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send


class LateRouter(APIRouter):
    """A router whose `routes` are `LateRoute`s; `include_router` is not for it."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a route, as `get`, `post` and the like ask for it."""
        self.routes.append(LateRoute(self, path, endpoint, options))


class LateRoute(Route):
    """A path and its methods; `whole` is FastAPI's route, made when it is first asked for."""

    def __init__(
        self, router: APIRouter, path: str, endpoint: Callable[..., Any], options: Mapping[str, Any]
    ) -> None:
        super().__init__(router.prefix + path, endpoint)
        self.methods = set(options["methods"])
        self._router, self._path, self._options = router, path, options

    @cached_property
    def whole(self) -> APIRoute:
        """The route with its parameters."""
        late = self._router
        router = APIRouter(prefix=late.prefix, include_in_schema=late.include_in_schema)
        router.add_api_route(self._path, self.endpoint, **self._options)
        (route,) = router.routes
        assert isinstance(route, APIRoute)
        return route

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for this route; `scope` then says which it is."""
        match, scope_of_match = super().matches(scope)
        return match, scope_of_match if match is Match.NONE else {**scope_of_match, "route": self}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse its method."""
        await self.whole.handle(scope, receive, send)
