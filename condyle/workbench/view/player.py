"""A player of a run for a web page: one piece of HTML with everything inside, drawn by WebGL, without network or libraries."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import MissingExtraError, ShapeError
from condyle.robot.mesh import Mesh
from condyle.workbench.view import scene
from condyle.workbench.view.camera import Camera, framed
from condyle.workbench.view.geometry import tube
from condyle.workbench.view.picture import DARK, LIGHT, grid_step, picture, png
from condyle.workbench.view.scene import RobotMesh, arrow_vectors, force_arrows, robot_mesh, robot_weight, survey
from condyle.workbench.view.trajectory import Trajectory, quaternions, sample_run, spread

if TYPE_CHECKING:
    from condyle.workbench.runs.run import Run

POSTER = (640, 360)  # pixels
TRAIL_POINTS = 400
CENTER = (0.96, 0.77, 0.10)
AWAY = 0.6  # of the robot's size: the camera follows a robot that goes farther
MIN_HEIGHT, MAX_HEIGHT = 160, 4000  # pixels, of a player


def player_html(
    run_or_trajectory: Run | Trajectory,
    *,
    title: str = "",
    height: int = 420,
    fps: float = 30.0,
    autoplay: bool = True,
    loop: bool = True,
    poster: bool = True,
    follow: bool | None = None,
    path: bool = False,
) -> str:
    """A piece of HTML that plays the motion; several may be on one page.

    `poster`: a picture for before it plays and for browsers without WebGL 2. `follow`: whether the camera goes with the robot;
    None: if it goes far. `path`: whether the path of the centre of mass is shown at first. All text is escaped.
    """
    height = int(height)
    if not MIN_HEIGHT <= height <= MAX_HEIGHT:
        raise ShapeError(f"a player is {MIN_HEIGHT} to {MAX_HEIGHT} pixels high, got {height}")
    m = run_or_trajectory if isinstance(run_or_trajectory, Trajectory) else sample_run(run_or_trajectory, fps)
    data = player_data(m, follow=follow)
    data |= {"title": title or m.title or m.robot.name, "autoplay": bool(autoplay), "loop": bool(loop), "path": bool(path)}
    heading = f'<div class="condyle-title">{escape(title)}</div>' if title else ""
    return (
        f"<style>{_web('player.css')}</style>"
        f'<div class="condyle-player" tabindex="0" style="height:{height}px">'
        f'<script type="application/json">{script_json(data)}</script>'
        f'<div class="condyle-stage">{_poster(m, data) if poster else ""}{heading}'
        f'<div class="condyle-scale">squares {data["square"]:g} m</div></div>'
        '<div class="condyle-bar" role="group" aria-label="Player"></div></div>'
        f"<script>{_web('draw.js')}</script><script>{_web('player.js')}</script>"
    )


def player_page(run_or_trajectory: Run | Trajectory, *, title: str = "", height: int = 420, **options: Any) -> str:
    """A whole HTML page with one player and nothing else; options as of `player_html`."""
    inside = player_html(run_or_trajectory, title=title, height=height, **options)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title or "condyle")}</title>'
        f"<style>html,body{{margin:0;background:transparent}}</style></head><body>{inside}</body></html>"
    )


def framed_page(run_or_trajectory: Run | Trajectory, *, title: str = "", height: int = 420, **options: Any) -> str:
    """The page inside an <iframe>: nothing in it can touch the page around it, nor the other way round."""
    page = player_page(run_or_trajectory, title=title, height=height, **options)
    return (
        f'<iframe sandbox="allow-scripts" title="{escape(title or "condyle player")}" width="100%" height="{int(height) + 4}" '
        f'style="border:0;display:block;color-scheme:light dark" srcdoc="{escape(page)}"></iframe>'
    )


# -- the parts


def player_data(m: Trajectory, *, follow: bool | None = None) -> dict[str, Any]:
    """All that the player needs, as plain data; numbers are little-endian float32 in base64."""
    shown = robot_mesh(m.robot)
    seen = survey(m)
    if follow is None:
        follow = bool(np.ptp(m.center[:, :2], axis=0).max() > AWAY * seen.extent)
    if follow:
        seen = survey(m, follow=True)
    camera, size = framed(seen.points, (16, 9), margin=0.74), seen.extent
    first = shown.at(m.R[0], m.p[0]).vertices if len(shown.vertices) else np.zeros((1, 3))
    middle = 0.5 * (first.max(axis=0) + first.min(axis=0)).astype(float)
    starts = np.concatenate([m.contacts, m.push_points], axis=1)
    arrows = arrow_vectors(np.concatenate([m.forces, m.pushes], axis=1), robot_weight(m.robot), size)
    points = m.center[spread(len(m), TRAIL_POINTS)]
    trail = tube(points, 0.005 * size, 6) if len(m) > 1 else None
    poses = np.concatenate([quaternions(m.R), m.p], axis=-1) if len(m.robot.model.links) else np.zeros((len(m), 0))
    return {
        "t": _floats(m.t - m.t[0]),
        "links": len(m.robot.model.links),
        "poses": _floats(poses),
        "center": _floats(m.center),
        "contacts": m.contacts.shape[1],
        "arrows": starts.shape[1],
        "starts": _floats(starts),
        "ways": _floats(arrows),
        **_body_data(shown),
        "polylines": [{"count": points.shape[1], "points": _floats(points)} for points in m.polylines],
        "trail": None if trail is None or not len(trail.faces) else _trail_data(trail),
        "camera": {"eye": camera.eye, "target": camera.target, "fov": camera.fov, "distance": camera.distance},
        "size": size,
        "arrowSize": scene.ARROW * size,
        "lineSize": scene.LINE * size,
        "dotSize": scene.DOT * size,
        "square": grid_step(size),
        "level": seen.level,
        "lampShift": (middle - m.center[0]).tolist(),
        "follow": bool(follow),
        "themes": {"light": asdict(LIGHT), "dark": asdict(DARK)},
        "colors": {"force": scene.FORCE, "push": scene.PUSH, "path": scene.TRAIL, "plan": scene.PLAN, "center": CENTER},
    }


def _body_data(shown: RobotMesh) -> dict[str, Any]:
    """The triangles, sorted by link and by whether they are solid, and the ranges of each."""
    link = shown.link[shown.faces[:, 0]] if len(shown.faces) else np.zeros(0, int)
    solid = shown.color[:, 3] > 0.98
    order = np.lexsort((link, ~solid))
    kinds, counts = np.unique(np.stack([~solid, link], axis=1)[order].astype(int), axis=0, return_counts=True)
    ends = np.cumsum(3 * counts)
    groups = [
        {"link": int(link), "solid": not hollow, "first": int(end - 3 * count), "count": int(3 * count)}
        for (hollow, link), count, end in zip(kinds, counts, ends, strict=True)
    ]
    # vertices have the colour of their face: pieces share none
    colors = np.zeros((len(shown.vertices), 4), np.uint8)
    colors[shown.faces.ravel()] = np.repeat(np.rint(shown.color * 255.0).astype(np.uint8), 3, axis=0)
    faces = _base64(shown.faces[order].astype("<u4"))
    body = {"places": _floats(shown.vertices), "normals": _floats(shown.normals), "colors": _base64(colors), "faces": faces}
    return {"body": body, "groups": groups}


def _trail_data(trail: Mesh) -> dict[str, str]:
    middle = np.repeat(trail.vertices[1:-1].reshape(-1, 6, 3).mean(axis=1), 6, axis=0)
    normals = np.concatenate([trail.vertices[:1] * 0.0, trail.vertices[1:-1] - middle, trail.vertices[:1] * 0.0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    # rings in the order of time, so that the way can be drawn as far as it has come
    order = np.argsort(trail.faces.max(axis=1), kind="stable")
    faces = _base64(trail.faces[order].astype("<u4"))
    return {"places": _floats(trail.vertices), "normals": _floats(normals), "faces": faces}


def _poster(m: Trajectory, data: dict[str, Any]) -> str:
    """The first picture, light and dark; nothing if Pillow is not installed."""
    camera = Camera(tuple(data["camera"]["eye"]), tuple(data["camera"]["target"]), data["camera"]["fov"])
    style: dict[str, Any] = {"size": POSTER, "camera": camera, "ground": float(data["level"])}
    style |= {"arrows": force_arrows(m, 0, data["size"]), "polylines": [points[0] for points in m.polylines]}
    try:
        images = [png(picture(m.robot, m.q[0], dark=d, **style)) for d in (False, True)]
    except MissingExtraError:
        return ""
    light, dark = (f"data:image/png;base64,{base64.b64encode(image).decode()}" for image in images)
    alt = escape(str(m.robot.name))
    return f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}"><img src="{light}" alt="{alt}"></picture>'


@cache
def _web(name: str) -> str:
    return files("condyle.workbench.view").joinpath("web", name).read_text(encoding="utf-8")


def script_json(data: Any) -> str:
    """JSON that can stand in a <script> element: nothing in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _floats(array: np.ndarray) -> str:
    return _base64(array.astype("<f4"))


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
