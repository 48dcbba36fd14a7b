"""Checkpoints: everything that the rest of a training depends on, in one file that is replaced atomically.

And iterations that are made completely or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from condyle.atomic_write import write_bytes
from condyle.errors import ControlError
from condyle.methods.learn.policy_file import archive, read_archive

FORMAT, VERSION, NAME = "condyle checkpoint", 1, "checkpoint.json"
LARGEST = 1 << 34  # bytes
SUFFIX = ".checkpoint"


@contextmanager
def undone_if_interrupted(objects: Sequence[Any], arrays: Sequence[Any]) -> Iterator[None]:
    """All that the block does, or, if an error or an interrupt ends it, nothing.

    `objects`: whose attributes it sets. `arrays`: what it changes in place, NumPy arrays or tensors.
    """
    attributes = [(vars(each), dict(vars(each))) for each in objects]
    contents = [(each, each.clone() if hasattr(each, "clone") else each.copy()) for each in arrays]
    try:
        yield
    except BaseException:
        for each, content in contents:
            each[:] = content
        for present, before in attributes:
            present.update(before)
        raise


def check_arrays(own: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise a ControlError unless the arrays of a checkpoint have the shapes and types of a learner's own."""
    for name, array in own.items():
        if name not in arrays or arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
            raise ControlError(f"the checkpoint's '{name}' does not fit this task and network: train with its own settings")


def save_checkpoint(path: str | os.PathLike[str], facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """None; the file has these facts and arrays, or, if the process is killed before, those of the last time."""
    write_bytes(path, archive({"format": FORMAT, "version": VERSION, **facts}, arrays, NAME))


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(facts, arrays) of a checkpoint; a FileError in one sentence if it is damaged or something else."""
    advice = "condyle train writes it beside the policy, and resumes from it"
    return read_archive(path, FORMAT, VERSION, advice, NAME, LARGEST)
