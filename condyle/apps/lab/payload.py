"""A body fixed to a frame of an arm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from condyle.apps.lab.tables import Payload
from condyle.errors import ControlError
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.robot.spatial import Inertia


def with_payload(model: Model, payload: Payload, tool: str) -> Model:
    """The model with a body fixed to a frame."""
    name = payload.frame or tool
    frames = [frame.name for frame in model.frames]
    if name not in frames:
        raise ControlError(f"[robot.payload] frame '{name:.60}' is no frame of {model.name}{nearest(name, frames)}")
    frame = model.frame(name)
    if frame.link < 0:
        raise ControlError(f"[robot.payload] frame '{name}' is fixed to the world: choose one that moves")
    R, p = np.asarray(frame.pose.R, dtype=float), np.asarray(frame.pose.p, dtype=float)
    com = p + R @ np.array(payload.position)
    added = Inertia.about_com(payload.mass, com, R @ np.diag(payload.inertia) @ R.T)
    link = model.links[frame.link]
    links = list(model.links)
    links[frame.link] = replace(link, inertia=link.inertia + added)
    return replace(model, links=tuple(links))
