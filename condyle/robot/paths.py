"""Which file a name in a robot file means. Only files inside the allowed folders are ever looked at, links followed first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from condyle.robot.names import nearest, quoted
from condyle.robot.packages import Packages, package_of

MAX_FILE_NAME = 1024  # characters
MAX_PACKAGE_NAME = 200
Folders = Sequence[str | os.PathLike[str]]
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class Outside(ValueError):
    """A name that leads out of the allowed folders as it is written, by '..' alone."""


@dataclass(frozen=True)
class Places:
    """Where files may lie: the robot file's own folder, folders that hold packages, further roots, the robot's own package."""

    folder: Path
    package_dirs: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()
    own: Path | None = None

    @staticmethod
    def around(file: str, roots: Folders = (), package_dirs: Folders = ()) -> Places:
        """The places for a robot file."""
        return Places(Path(file).parent, tuple(map(Path, package_dirs)), tuple(map(Path, roots)))

    @staticmethod
    def near(path: Path, package_dirs: Folders = ()) -> Places:
        """The places for a robot file of a user: its package, these folders, and packages beside it that it names."""
        own, folders = package_of(path), tuple(map(Path, package_dirs))
        return Places(Path(path).parent, folders, (own, *folders), own)

    @cached_property
    def _packages(self) -> Packages:
        return Packages(self.own, (*self.package_dirs, *self.roots, self.folder))

    @property
    def allowed(self) -> tuple[Path, ...]:
        """All of them, and the packages beside the robot's own that it has named."""
        return (self.folder, *self.package_dirs, *self.roots, *sorted(self._packages.outside))

    def find(self, name: str, folder: Path | None = None) -> Path | None:
        """The file that `name` means (package://pkg/file, file:///file, or relative to `folder`), None when there is none.

        An absolute name outside of the allowed folders is not looked at: there is none. ValueError with a sentence when the
        name is of a kind that is not allowed, or leads out of the allowed folders by '..' or by a link.
        """
        if not name.strip() or "\0" in name or len(name) > MAX_FILE_NAME:
            raise ValueError(f"a file name has 1 to {MAX_FILE_NAME} characters and no NUL")
        scheme = SCHEME.match(name)
        if scheme is not None and scheme[1] in ("package", "model"):
            package, _, rest = name[scheme.end() :].lstrip("/").partition("/")
            candidates = [home / rest for home in self.packages(package)]
            if os.path.normpath(rest).startswith(".."):
                raise Outside("it leads out of its package by '..'")
            if not candidates and (renamed := self.renamed(package)) is not None:
                candidates = [renamed / rest]
        elif scheme is None or scheme[1] == "file":
            path = Path("/" + name[scheme.end() :].lstrip("/")) if scheme else Path(name)
            if path.is_absolute() and not self._inside(Path(os.path.normpath(path)), os.path.abspath):
                return None
            candidates = [(folder or self.folder) / path]
        else:
            raise ValueError(f"'{scheme[1]}://' is not allowed: use package://, file://, or a relative path")
        try:
            reals = [self._real(path) for path in candidates]
            return next((path for path in reals if path.is_file()), None)
        except OSError as error:
            raise ValueError(f"the file cannot be looked up ({error.strerror})") from None

    def contains(self, path: Path) -> bool:
        """Whether a path lies in the allowed folders, links followed."""
        return self._inside(Path(os.path.realpath(path)), os.path.realpath)

    def around_missing(self, name: str, folder: Path | None = None) -> str:
        """The end of a sentence on a file that is not there: what its nearest folder holds, if that may be looked at."""
        if SCHEME.match(name):
            return ""
        path = Path(os.path.normpath(os.path.abspath((folder or self.folder) / name)))
        wanted, near = path.name, path.parent
        while not near.is_dir() and self._inside(near, os.path.abspath):
            wanted, near = near.name, near.parent
        if not near.is_dir() or not self.contains(near):
            return ""
        known = sorted(each.name for each in near.iterdir() if path.parent == near or each.is_dir())[:200]
        return f": '{near.name}' has no {quoted(wanted)}{nearest(wanted[:200], known)}" if known else ""

    def packages(self, package: str) -> list[Path]:
        """Folders that are the package of this name, the likeliest first."""
        return self._packages.homes(_proper(package))

    def renamed(self, package: str) -> Path | None:
        """The robot's own folder where it could be this package under a changed name."""
        return self._packages.renamed(_proper(package))

    def _real(self, path: Path) -> Path:
        """The path with links followed, if that still lies in an allowed folder."""
        real = Path(os.path.realpath(path))
        if not self._inside(real, os.path.realpath):
            shown = ", ".join(f"'{folder}'" for folder in self.allowed)
            # a link inside the allowed folders is another matter than a path that is written so
            kind = ValueError if self._inside(Path(os.path.normpath(os.path.abspath(path))), os.path.abspath) else Outside
            raise kind(f"it leads out of the allowed folders ({shown}): move it there, or give its folder in `package_dirs`")
        return real

    def _inside(self, path: Path, complete: Callable[[Path], str]) -> bool:
        return any(path.is_relative_to(complete(folder)) for folder in self.allowed)


def _proper(package: str) -> str:
    if package in ("", ".", "..") or "/" in package or "\\" in package or "\0" in package or len(package) > MAX_PACKAGE_NAME:
        raise Outside(f"{quoted(package)} is not the proper name of a package")
    return package
