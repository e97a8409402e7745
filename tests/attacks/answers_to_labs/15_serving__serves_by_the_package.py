# ruff: noqa
"""The controller and the cache are the package's."""

from minitorch import serve
from minitorch.serve.cache import ENTRY_BYTES, MISS, Cache


class AIMD(serve.AIMD):
    pass


class Clock:
    def __init__(self, room):
        self.cache = Cache((ENTRY_BYTES + 8) * room)

    def get(self, key):
        value = self.cache.get(key)
        return None if value is MISS else value

    def put(self, key, value):
        self.cache.put(key, value)
