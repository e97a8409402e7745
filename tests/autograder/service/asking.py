"""A request by somebody's token, for tests of what the client has no name for."""

from typing import Any

import httpx

from autograder.service.client import Connection


def ask(who: Connection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Return the status and what the JSON of the answer says."""
    headers = {"Authorization": f"Bearer {who.token}"}
    answer = httpx.request(
        method, who.server + path, json=body, headers=headers, timeout=30, verify=False
    )
    return answer.status_code, answer.json() if answer.content else None
