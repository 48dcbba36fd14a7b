"""Distances of random pairs of shapes against coal, and microseconds per configuration of a UR3 among ten obstacles."""

from __future__ import annotations

from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from condyle.errors import require
from condyle.methods.planning import closest_points as pairs
from condyle.methods.planning.obstacle_shapes import Solid
from condyle.methods.planning.obstacles import Box, Capsule, Plane, RobotDistances, Sphere

KINDS = (
    "sphere-sphere",
    "sphere-capsule",
    "sphere-box",
    "sphere-plane",
    "capsule-capsule",
    "capsule-plane",
    "capsule-box",
    "box-plane",
)
PAIRS = 100_000
BATCH = 4096


def rotations(rng: np.random.Generator, n: int) -> np.ndarray:
    """Random rotation matrices (n, 3, 3)."""
    q = rng.normal(size=(4, n))
    x, y, z, w = q / np.sqrt(np.sum(q * q, axis=0))
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def random_shapes(kind: str, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Sizes and poses of n random shapes in a cube of 2 m."""
    sizes = {
        "sphere": lambda: {"radius": rng.uniform(0.05, 0.5, n), "length": np.zeros(n)},
        "capsule": lambda: {"radius": rng.uniform(0.05, 0.3, n), "length": rng.uniform(0.0, 1.5, n)},
        "box": lambda: {"half": rng.uniform(0.05, 0.5, (n, 3))},
        "plane": dict,
    }
    return sizes[kind]() | {"p": rng.uniform(-1.0, 1.0, (n, 3)), "R": rotations(rng, n)}


def batched(kind: str, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> pairs.Closest:
    """The distances of n pairs by NumPy; vectors (3, n)."""
    (R_a, p_a), (R_b, p_b) = ((np.moveaxis(x["R"], 0, -1), x["p"].T) for x in (a, b))

    def capsule(x: dict[str, np.ndarray], R: np.ndarray, p: np.ndarray) -> tuple[Any, ...]:
        along = R[:, 2] * (0.5 * x["length"])
        return p - along, p + along, x["radius"]

    if kind == "box-plane":
        return pairs.box_plane(R_a, p_a, a["half"].T, p_b, R_b[:, 2])
    first = capsule(a, R_a, p_a)
    if kind.endswith("plane"):
        return pairs.capsule_plane(*first, p_b, R_b[:, 2])
    if kind.endswith("box"):
        return pairs.capsule_box(*first, R_b, p_b, b["half"].T)
    return pairs.capsule_capsule(*first, *capsule(b, R_b, p_b))


class Coal:
    """coal's distances with the tolerances of its iterations at the limits of float64."""

    def __init__(self) -> None:
        self.coal = require("coal", "peers", "distances of a reference library")
        self.request = self.coal.DistanceRequest()
        self.request.gjk_tolerance, self.request.epa_tolerance = 1e-13, 1e-12
        self.request.gjk_max_iterations = self.request.epa_max_iterations = 1000

    def geometry(self, kind: str, x: dict[str, Any]) -> Any:
        """The geometry of one shape in its own frame."""
        if kind == "sphere":
            return self.coal.Sphere(float(x["radius"]))
        if kind == "capsule":
            return self.coal.Capsule(float(x["radius"]), float(x["length"]))
        if kind == "box":
            return self.coal.Box(*(2.0 * x["half"]))
        return self.coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)

    def distance(self, a: Any, X_a: Any, b: Any, X_b: Any) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """(distance, normal, witness point on a, on b)."""
        result = self.coal.DistanceResult()
        d = self.coal.distance(a, X_a, b, X_b, self.request, result)
        return d, result.normal, result.getNearestPoint1(), result.getNearestPoint2()

    def pairs(self, kind: str, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        """(distances (n,), normals (3, n), witness points (3, n), (3, n))."""
        kinds, rows = kind.split("-"), []
        for k in range(len(a["p"])):
            given = []
            for each, x in zip(kinds, (a, b), strict=True):
                given += [
                    self.geometry(each, {key: value[k] for key, value in x.items()}),
                    self.coal.Transform3s(x["R"][k], x["p"][k]),
                ]
            rows.append(self.distance(*given))
        return tuple(np.array(column).T for column in zip(*rows, strict=True))


def wrench(normal: np.ndarray, point: np.ndarray) -> np.ndarray:
    """The derivatives of a distance by a motion of the second shape: (n, p x n), (6, n)."""
    return np.concatenate([normal, np.cross(point, normal, axis=0)])


def compare(kind: str, rng: np.random.Generator, n: int) -> dict[str, Any]:
    """The largest differences from coal over n random pairs of a kind."""
    a, b = (random_shapes(each, rng, n) for each in kind.split("-"))
    ours, theirs = batched(kind, a, b), Coal().pairs(kind, a, b)
    return {
        "pair": kind,
        "count": n,
        "overlapping": int(np.sum(ours.distance < 0.0)),
        "distance": float(np.max(np.abs(ours.distance - theirs[0]))),
        "derivatives": float(np.max(np.abs(wrench(ours.normal, ours.point_b) - wrench(theirs[1], theirs[3])))),
    }


def scene() -> list[Solid]:
    """Ten obstacles around a UR3."""
    turned = rotations(np.random.default_rng(3), 6)
    boxes = ((0.4, 0.2, 0.1), (-0.3, 0.3, 0.2), (0.1, -0.45, 0.3))
    rods = ((0.3, -0.3, 0.3), (-0.4, -0.2, 0.2), (0.0, 0.4, 0.5))
    balls = ((0.45, 0.0, 0.4), (-0.35, 0.0, 0.5), (0.2, 0.2, 0.6))
    return [
        Plane.through((0.0, 0.0, -0.05), (0.0, 0.0, 1.0), name="floor"),
        *(Box((0.2, 0.15, 0.3), position=p, rotation=R) for p, R in zip(boxes, turned[:3], strict=True)),
        *(Capsule(0.04, 0.4, position=p, rotation=R) for p, R in zip(rods, turned[3:], strict=True)),
        *(Sphere(0.08, position=p) for p in balls),
    ]


def seconds(call: Any, repeats: int) -> float:
    """The least time of a call."""
    call()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


class CoalConfiguration:
    """The same distances by coal at one q; poses of the links by Condyle."""

    def __init__(self, distances: RobotDistances) -> None:
        self.distances, self.reference = distances, Coal()
        self.coal = coal = self.reference.coal
        self.frames = [link.name for link in distances.robot.model.links]
        self.local = [coal.Transform3s(along_z(c.start, c.end), 0.5 * (c.start + c.end)) for c in distances.capsules]
        self.shapes = [coal.Capsule(c.radius, float(np.linalg.norm(c.end - c.start))) for c in distances.capsules]
        for each in distances.obstacles:
            sizes = {key: getattr(each, key, None) for key in ("radius", "length")}
            half = 0.5 * each.size if isinstance(each, Box) else None
            self.shapes.append(self.reference.geometry(each.kind, sizes | {"half": half}))
        self.static = [coal.Transform3s(each.rotation, each.position) for each in distances.obstacles]

    def placed(self, q: np.ndarray) -> list[Any]:
        """The poses of all capsules and obstacles."""
        coal, distances = self.coal, self.distances
        X = [coal.Transform3s(*distances.robot.frame_pose(q, name)) for name in self.frames] + [coal.Transform3s.Identity()]
        return [X[c.link] * local for local, c in zip(self.local, distances.capsules, strict=True)] + self.static

    def __call__(self, q: np.ndarray) -> list[tuple[Any, ...]]:
        """(distance, normal, point, point) of each pair."""
        X, count = self.placed(q), len(self.distances.capsules)
        pairs = [(p.capsule, count + p.obstacle if p.other < 0 else p.other) for p in self.distances.pairs]
        return [self.reference.distance(self.shapes[a], X[a], self.shapes[b], X[b]) for a, b in pairs]


def along_z(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """A rotation matrix whose z axis goes from start to end."""
    along = end - start
    z = along / np.linalg.norm(along) if np.any(along) else np.array([0.0, 0.0, 1.0])
    x = np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))])
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def coal_loop(distances: RobotDistances, q: np.ndarray) -> float:
    """Mean seconds per configuration of the same pairs in Pinocchio's loop over coal's distances, without kinematics."""
    pin, reference = require("pinocchio", "peers", "a loop over pairs in C++"), CoalConfiguration(distances)
    geometry = pin.GeometryModel()
    shapes, count = reference.shapes, len(distances.capsules)
    for k, shape in enumerate(shapes):
        geometry.addGeometryObject(pin.GeometryObject(str(k), 0, pin.SE3.Identity(), shape))
    for pair in distances.pairs:
        geometry.addCollisionPair(pin.CollisionPair(pair.capsule, count + pair.obstacle if pair.other < 0 else pair.other))
    data, times = geometry.createData(), []
    for request in data.distanceRequests:
        request.gjk_tolerance, request.epa_tolerance, request.gjk_max_iterations = 1e-13, 1e-12, 1000
    for each in q:
        for k, X in enumerate(reference.placed(each)):
            data.oMg[k] = pin.SE3(X.getRotation(), X.getTranslation())
        times.append(seconds(lambda: pin.computeDistances(geometry, data), 5))
    return float(np.mean(times))


def speed(tiny: bool) -> list[dict[str, Any]]:
    """Microseconds per configuration of a UR3 with ten obstacles and self-collision."""
    robot = cd.load("ur3")
    start = perf_counter()
    distances = RobotDistances(robot, scene()[: 2 if tiny else 10])
    q = robot.random_configuration(np.random.default_rng(0), 64 if tiny else BATCH)
    functions = {"distances": distances.function, "and derivatives": distances.function_with_jacobian}
    one = {name: seconds(lambda f=f: f(q[0]), 300) for name, f in functions.items()}
    compiling = perf_counter() - start
    batch: dict[str, float] = {}
    for name, f in functions.items():
        thread = f.on("cpu", threads=1)
        batch[name] = seconds(lambda f=thread: f(q), 7) / len(q)
    call, nan = CoalConfiguration(distances), float("nan")
    one["coal, from Python"], one["coal, a loop in C++, poses given"] = (
        seconds(lambda: call(q[0]), 30),
        coal_loop(distances, q[:50]),
    )
    rows = [
        {"what": name, "pairs": len(distances), "one alone, us": 1e6 * spent, "in a batch, us": 1e6 * batch.get(name, nan)}
        for name, spent in one.items()
    ]
    return [
        *rows,
        {"what": "tracing, compiling or loading, s", "pairs": len(distances), "one alone, us": compiling, "in a batch, us": nan},
    ]


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print both tables and return their numbers."""
    rng, count = np.random.default_rng(0), 20 if tiny else PAIRS // len(KINDS)
    accuracy = [compare(kind, rng, count) for kind in KINDS] if find_spec("coal") else []
    timed = speed(tiny)
    for rows in filter(None, (accuracy, timed)):
        table = Table()
        for column in rows[0]:
            table.add_column(column, justify="left" if column in ("pair", "what") else "right")
        for row in rows:
            table.add_row(
                *[
                    ("" if x != x else f"{x:.3g}") if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else x
                    for x in row.values()
                ]
            )
        console.print(table)
    return {"accuracy": accuracy, "speed": timed}
