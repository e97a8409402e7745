"""What pyproject.toml has no words for: the labs travel in the wheel, beside `autograder`."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

LABS = Path(__file__).parent / "labs"
OTHER = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "answers", ".progress.json")


class BuildWithLabs(build_py):
    """Builds the packages, and copies the labs to where `autograder start` looks for them."""

    def run(self) -> None:
        """Do both; an editable installation finds the labs in its checkout."""
        super().run()
        if LABS.is_dir() and not self.editable_mode:
            course = Path(self.build_lib) / "autograder" / "course"
            shutil.copytree(LABS, course, ignore=OTHER, dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithLabs})
