"""Commands about what a server keeps, which work on its directory and database themselves."""

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from autograder.service.errors import Refused, StartError
from autograder.service.running.commands import Subparsers, command, group, write_atomically


def add_commands(subparsers: Subparsers) -> None:
    """Add the commands; none asks a server."""

    def kept(subparsers: Subparsers, name: str, *how: Any) -> argparse.ArgumentParser:
        parser = command(subparsers, name, *how)
        parser.add_argument("--data", type=Path, metavar="DIR", required=True, help="of the server")
        parser.add_argument("--database", metavar="URL", default="", help="default: SQLite in DIR")
        return parser

    actions = group(subparsers, "courses", "several courses on one server")
    kept(actions, "list", _list_courses, "say which there are beside the one at /")
    add = kept(actions, "add", _add_course, "add one at /courses/NAME")
    add.add_argument("--title", metavar="T", default="", help="default: NAME")
    add.add_argument("--labs", metavar="DIR", type=Path, help="default: those of the server")
    add.add_argument("--lti", metavar="FILE", type=Path, help="the platforms that launch it")
    remove = kept(actions, "remove", _remove_course, "let the server forget one; it is kept")
    for parser in (add, remove):
        parser.add_argument("name", metavar="NAME")
    kept(subparsers, "migrate", _migrate, "bring every database up to date")
    kept(subparsers, "backup", _backup, "write all courses to a file, while they run", "file")
    kept(subparsers, "restore", _restore, "put a backup into an empty directory", "file")
    person = kept(
        subparsers, "person", _person, "give or remove all that is kept of a learner", "login"
    )
    person.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a copy there")
    person.add_argument("--remove", action="store_true", help="remove the learner and their work")
    person.add_argument("--course", metavar="NAME", default="", help="one of several courses")


def _list_courses(arguments: argparse.Namespace) -> None:
    from autograder.service.running import courses

    with courses.open_course(arguments.data, arguments.database, "") as store:
        for entry in courses.entries(store.database):
            print(f"/{courses.FOLDER}/{entry.name}: {entry.title}. {entry.labs or 'labs as at /'}")


def _add_course(arguments: argparse.Namespace) -> None:
    from autograder.service.grading.catalog import LabCatalog
    from autograder.service.records.store import Store, sqlite_url
    from autograder.service.running import courses
    from autograder.service.running.data_directory import data_directory
    from autograder.service.running.server import TOKEN_FILE, instructor_token

    url, name = arguments.database, arguments.name
    if arguments.labs is not None:
        LabCatalog(arguments.labs).require()
    if arguments.lti is not None and not arguments.lti.is_file():
        raise StartError(f"courses: lti: no file {arguments.lti}. Check the path.")
    paths = {option: getattr(arguments, option) for option in ("labs", "lti")}
    absolute = {option: str(path.resolve()) for option, path in paths.items() if path}
    entry = courses.CourseEntry(name, arguments.title or name, **absolute)
    courses.verify(entry)
    data = data_directory(arguments.data)
    with closing(Store(url or sqlite_url(data), migrate=False)) as store:
        courses.add(store.database, entry)
    folder = data_directory(courses.folder(data, name))
    with closing(Store(courses.address(url, name) or sqlite_url(folder))) as own:
        instructor_token(folder, own.roster)
    print(f"{entry.title} is at /courses/{name} when the server starts next.")
    print(f"Its instructor's token is in {folder / TOKEN_FILE}")


def _remove_course(arguments: argparse.Namespace) -> None:
    from autograder.service.running import courses

    with courses.open_course(arguments.data, arguments.database, "") as store:
        courses.remove(store.database, arguments.name)
    print(f"{arguments.name} is gone when the server starts next. What it holds is kept:")
    print(f"`autograder courses add {arguments.name}` brings it back.")


def _backup(arguments: argparse.Namespace) -> None:
    from autograder.service.database.backups import backup

    size = backup(arguments.data, arguments.file, arguments.database)
    print(f"{arguments.file}: {size} bytes, read back and whole.")


def _restore(arguments: argparse.Namespace) -> None:
    from autograder.service.database.backups import restore
    from autograder.service.running.data_directory import claim_directory

    with claim_directory(arguments.data) as (data, undo):
        restore(arguments.file, data, arguments.database)
        undo.pop_all()
    print(f"What {arguments.file} holds is in {data}.")


def _person(arguments: argparse.Namespace) -> None:
    from autograder.service.records import personal_data
    from autograder.service.running import courses

    login = arguments.login
    if arguments.output is None and not arguments.remove:
        raise StartError("person: nothing to do. Say -o FILE, --remove, or both.")
    with courses.open_course(arguments.data, arguments.database, arguments.course) as store:
        person = store.roster.find(login)
        if person is None or person.login != login:
            raise StartError(f"person: nobody is called {login!r} here. Check the login.")
        if arguments.output is not None:
            with (
                store.database.read() as connection,
                write_atomically(arguments.output, 0o600) as file,
            ):
                file.writelines(map(str.encode, personal_data.copy(connection, person)))
            print(f"{arguments.output}: what is kept of {login}.")
        if arguments.remove:
            try:
                with store.database.write() as connection:
                    personal_data.remove(connection, person, store.clock, "command line")
            except Refused as error:
                raise StartError(str(error)) from error
            print(f"{login} is removed, with all that was theirs.")


def _migrate(arguments: argparse.Namespace) -> None:
    from autograder.service.records.store import require_course
    from autograder.service.running import courses
    from autograder.service.running.data_directory import hold_lock

    data, url = arguments.data, arguments.database
    require_course(data, url)
    with hold_lock(data):
        with courses.open_course(data, url, "", migrate=True) as store:
            names = [entry.name for entry in courses.entries(store.database)]
        for name in names:
            with courses.open_course(data, url, name, migrate=True):
                pass
    print(f"The database of {data} is up to date.")
