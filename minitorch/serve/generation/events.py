"""A reply over HTTP: server-sent events, a line of JSON for each token.

What goes wrong before the first token is an answer of its own; afterwards it is the last event. A
client that goes away ends its request; one that does not read holds up nobody but itself.

May import: starlette, errors, reply.
"""

import asyncio
import json
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from minitorch.errors import MinitorchError
from minitorch.serve.generation.reply import Stream

HEADERS = {
    "content-type": "text/event-stream",  # always UTF-8
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # no proxy keeps events back
}


class Events(Response):
    """The answer to a request to generate.

    Args:
        refuse: makes the answer of an error that comes before the first token.
    """

    def __init__(self, stream: Stream, refuse: Callable[[MinitorchError], Response]) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._stream, self._refuse = stream, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until the reply ends or the client goes."""
        answering = asyncio.create_task(self._answer(scope, receive, send))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            is_cut = answering.cancel()
            await self._stream.aclose()
            await asyncio.wait({answering, leaving})
        if not is_cut:
            answering.result()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            tokens = await self._stream.read()
        except MinitorchError as error:
            await self._refuse(error)(scope, receive, send)
            return
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        last: dict[str, object] = {}
        while tokens:
            events = b"".join([event({"token": token}) for token in tokens])
            await send({"type": "http.response.body", "body": events, "more_body": True})
            try:
                tokens = await self._stream.read()
            except MinitorchError as error:
                tokens, last = [], {"error": str(error)}
        last = last or {"done": True, "reason": self._stream.reason}
        await send({"type": "http.response.body", "body": event(last), "more_body": False})


def event(data: dict[str, object]) -> bytes:
    """Return one server-sent event."""
    return f"data: {json.dumps(data)}\n\n".encode()


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
