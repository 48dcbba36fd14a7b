"""Which file a name in a robot file means. Only files inside the allowed folders are ever looked at, links followed first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_NAME = 1024  # characters
Folders = Sequence[str | Path]
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True)
class Places:
    """Where files may lie: the robot file's own folder, folders that hold packages, and further roots."""

    folder: Path
    package_dirs: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()

    @staticmethod
    def around(file: str, roots: Folders = (), package_dirs: Folders = ()) -> Places:
        """The places for a robot file."""
        return Places(Path(file).parent, tuple(map(Path, package_dirs)), tuple(map(Path, roots)))

    @property
    def allowed(self) -> tuple[Path, ...]:
        """All of them."""
        return (self.folder, *self.package_dirs, *self.roots)

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

    def packages(self, package: str) -> list[Path]:
        """Folders that may be the package of this name."""
        if package in ("", ".", "..") or "/" in package or "\\" in package:
            raise ValueError("the package has no proper name")
        homes = []
        for folder in (*self.package_dirs, *self.roots, self.folder):
            if os.path.basename(os.path.abspath(folder)) == package:
                homes.append(folder)
            homes.append(folder / package)
        return homes

    def _real(self, path: Path) -> Path:
        """The path with links followed, if that still lies in an allowed folder."""
        real = Path(os.path.realpath(path))
        if not self._inside(real, os.path.realpath):
            shown = ", ".join(f"'{folder}'" for folder in self.allowed)
            raise ValueError(f"it leads out of the allowed folders ({shown}): move it there, or give its folder in `roots`")
        return real

    def _inside(self, path: Path, complete: Callable[[Path], str]) -> bool:
        return any(path.is_relative_to(complete(folder)) for folder in self.allowed)
