"""Numbers that all robots of an environment share, by name."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.learn.env_arguments import finite
from condyle.robot.names import nearest


class SharedValues(MutableMapping[str, Any]):
    """Numbers that all robots share, by name; they may change between calls, and nothing compiles again."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: finite(f"shared value '{name}'", value) for name, value in values.items()}
        self._table: np.ndarray | None = None

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        return float(value) if value.ndim == 0 else value.copy()

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._values:
            raise ControlError(f"the environment has no shared value '{name!s:.60}'{nearest(name, list(self._values))}")
        given, shape = finite(f"shared value '{name}'", value), self._values[name].shape
        if given.shape != shape:
            raise ControlError(f"shared value '{name}' has shape {shape}, got {given.shape}")
        self._values[name], self._table = given, None

    def __delitem__(self, name: str) -> None:
        raise ControlError(f"shared value '{name}' cannot be removed")

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def table(self, dtype: Any) -> np.ndarray:
        """All of them in one vector."""
        if self._table is None:
            self._table = np.concatenate([value.ravel() for value in self._values.values()]).astype(dtype)
        return self._table
