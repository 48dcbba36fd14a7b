"""Experiments as plain data: read from TOML, and values put at dotted paths."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from condyle.atomic_write import READ_ADVICE, PathLike, file_errors
from condyle.errors import ControlError

MAX_FILE = 1 << 22  # bytes of a file of experiments


def toml_data(path: PathLike) -> dict[str, Any]:
    """The data of a TOML file; ControlError with file and line if it cannot be parsed."""
    with file_errors(path, "read", READ_ADVICE):
        content = Path(path).read_bytes()
    if len(content) > MAX_FILE:
        raise ControlError(f"{path} has {len(content):,} bytes, more than {MAX_FILE:,}: it is no experiment")
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ControlError(f"{path} is not valid TOML: {error!s:.200}") from None


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"wrist_3.mass": 0.5} of {"wrist_3": {"mass": 0.5}}, which is what TOML makes of a dotted key."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{key}.")
        else:
            found[f"{before}{key}"] = value
    return found


def put(data: dict[str, Any], path: str, value: Any) -> None:
    """None; the value is at a path of the data."""
    parts = path.split(".")
    at: Any = data
    if parts[0] == "plant":
        data.setdefault("plant", {})
        plant = flat(data["plant"])
        plant[".".join(parts[1:])] = value
        data["plant"] = plant
        return
    for k, part in enumerate(parts[:-1]):
        if isinstance(at, list):
            named = [each for each in at if each.get("name") == part]
            if not named:
                raise ControlError(f"'{path}': there is no [[wrenches]] with the name '{part}'")
            at = named[0]
        else:
            at = at.setdefault(part, {})
        if not isinstance(at, dict | list):
            raise ControlError(f"'{path}': {'.'.join(parts[: k + 1])} is not a table")
    if isinstance(at, list):
        raise ControlError(f"'{path}' names no key of a table")
    at[parts[-1]] = value
