"""A simulation as plain data, and back: robot, ground, contact points and options. Functions cannot be written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from condyle.errors import CondyleError
from condyle.multibody.robot import Robot
from condyle.robot.model import digest
from condyle.runs import json_codec
from condyle.runs.json_codec import Unwritable, Wrong, entry
from condyle.runs.model_data import data_of_model, model_of_data
from condyle.simulate.points import ContactPoint
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Ground, HeightField, Plane, Slope, Stairs

T = TypeVar("T")

NUMBERS = ("rest_depth_mm", "smoothing", "limit_depth")
SWITCHES = ("limits", "joint_friction", "damping", "torque_limits")
MOST_SUBSTEPS = 10_000

# ---- to data


def data_of_robot(robot: Robot) -> dict[str, Any]:
    """The robot's model and how it is constrained; Unwritable if that took a function."""
    constraints: Any = "none"
    if robot.coordinate_map is not None:
        if robot.rolled is not None:
            constraints = dict(robot.rolled)
        elif robot.described:
            constraints = "described"
        else:
            raise Unwritable(f"robot '{robot.name}' has constraints other than those of its file and wheels on flat ground")
    return {"model": data_of_model(robot.model), "constraints": constraints}


def data_of_simulation(simulation: Simulation) -> dict[str, Any]:
    """All that the simulation was made of; Unwritable says what cannot be written down."""
    options = simulation.options
    if options["force"] is not None:
        raise Unwritable("its force= is a function")
    springs = options["springs"]
    return {
        "robot": data_of_robot(simulation.robot),
        "dt": simulation.dt,
        "ground": _data_of_ground(simulation.ground),
        "contacts": [
            [p.name, p.link, json_codec.table(p.position), json_codec.data_of(p.radius), json_codec.optional(p.friction)]
            for p in simulation.contact_points
        ],
        "options": {
            "integrator": str(options["integrator"]),
            "substeps": int(options["substeps"]),
            "depth_exponent": int(options["depth_exponent"]),
            "cone": options["cone"] if isinstance(options["cone"], str) else int(options["cone"]),
            **{name: float(options[name]) for name in NUMBERS},
            **{name: bool(options[name]) for name in SWITCHES},
            "springs": None if springs is None else {str(name): [float(x) for x in pair] for name, pair in springs.items()},
            "actuated": None if options["actuated"] is None else [str(name) for name in options["actuated"]],
            "wrenches": [str(name) for name in options["wrenches"]],
        },
    }


def _data_of_ground(ground: Ground | None) -> dict[str, Any] | None:
    if ground is None:
        return None
    fields: dict[str, Any]
    if isinstance(ground, Plane):
        fields = {"friction": ground.friction, "normal": list(ground.normal), "offset": ground.offset}
    elif isinstance(ground, Slope):
        fields = {"degrees": ground.degrees, "azimuth": ground.azimuth, "friction": ground.friction}
    elif isinstance(ground, Stairs):
        fields = {name: getattr(ground, name) for name in ("rise", "run", "count", "friction", "rounding", "start")}
    elif isinstance(ground, HeightField):
        spacing, origin = ground.spacing, ground.origin
        fields = {
            "heights": json_codec.table(ground.heights),
            "spacing": json_codec.table(spacing),
            "origin": json_codec.table(origin),
        }
        fields["friction"] = ground.friction
    else:
        raise Unwritable(f"its ground is a {type(ground).__name__}, which is a function")
    return {"kind": type(ground).__name__, **fields}


# ---- from data


def robot_of_data(data: Any) -> Robot:
    """The robot; Wrong says where the data has its first fault, or why no robot can be made of it."""
    model, how = model_of_data(entry(data, "model", "robot")), entry(data, "constraints", "robot")
    rolled = _read_rolling(how) if isinstance(how, dict) else None
    if rolled is None and how not in ("none", "described"):
        raise Wrong('robot.constraints is not "none", "described" or how its wheels roll')
    return _made("robot", lambda: _constrained(Robot(model), rolled, how == "described"))


def _constrained(robot: Robot, rolled: dict[str, Any] | None, described: bool) -> Robot:
    if described or (rolled is not None and rolled["described"]):
        robot = robot.constrain_as_described()
    if rolled is not None:
        robot = robot.roll(rolled["wheels"], rolled["radius"], independent=rolled["independent"])
    return robot


def _read_rolling(data: Any) -> dict[str, Any]:
    at = "robot.constraints"
    independent = entry(data, "independent", at)
    return {
        "wheels": list(json_codec.items(entry(data, "wheels", at), f"{at}.wheels", json_codec.text)),
        "radius": json_codec.number(entry(data, "radius", at), f"{at}.radius"),
        "independent": None if independent is None else list(json_codec.items(independent, f"{at}.independent", json_codec.text)),
        "described": json_codec.truth(entry(data, "described", at), f"{at}.described"),
    }


def simulation_of_data(data: Any) -> Simulation:
    """The simulation; Wrong says where the data has its first fault, or why no simulation can be made of it."""
    robot = robot_of_data(entry(data, "robot", "recipe"))
    dt = json_codec.number(entry(data, "dt", "recipe"), "recipe.dt")
    ground = _read_ground(entry(data, "ground", "recipe"))
    contacts = json_codec.items(entry(data, "contacts", "recipe"), "recipe.contacts", _read_point)
    options = _read_options(entry(data, "options", "recipe"))
    return _made("simulation", lambda: Simulation(robot, dt, ground, contacts or None, **options))


def _made(what: str, make: Callable[[], T]) -> T:
    """What `make` makes; Wrong if these numbers make none."""
    try:
        return make()
    except Wrong:
        raise
    except CondyleError as error:
        raise Wrong(f"they make no {what}: {error}") from error
    except (ValueError, ArithmeticError, LookupError, TypeError) as error:
        raise Wrong(f"they make no {what} ({error!s:.80})" if str(error) else f"they make no {what}") from error


def _read_point(row: Any, at: str) -> ContactPoint:
    parts = json_codec.items(row, at, lambda data, _: data, 5)
    if len(parts) != 5:
        raise Wrong(f"{at} is not a name, a link, a position, a radius and a friction")
    name, link, position, radius, friction = parts
    numbers = json_codec.number(radius, at), json_codec.maybe(friction, at)
    whole = json_codec.whole(link, at, 0, json_codec.MOST_ITEMS)
    return _made(
        "contact point", lambda: ContactPoint(json_codec.text(name, at), whole, json_codec.array(position, at, (3,)), *numbers)
    )


def _read_ground(data: Any) -> Ground | None:
    if data is None:
        return None
    at = "recipe.ground"
    kind = entry(data, "kind", at)

    def numbers(*names: str) -> dict[str, Any]:
        return {name: json_codec.number(entry(data, name, at), f"{at}.{name}") for name in names}

    def row(name: str, count: int) -> Any:
        return tuple(json_codec.array(entry(data, name, at), f"{at}.{name}", (count,)).tolist())

    if kind == "Plane":
        fields = {**numbers("friction", "offset"), "normal": row("normal", 3)}
        return _made("ground", lambda: _plane(fields))
    if kind == "Slope":
        return _made("ground", lambda: Slope(**numbers("degrees", "azimuth", "friction")))
    if kind == "Stairs":
        return _made("ground", lambda: Stairs(**numbers("rise", "run", "count", "friction", "rounding", "start")))
    if kind == "HeightField":
        heights = entry(data, "heights", at)
        columns = len(heights[0]) if isinstance(heights, list) and heights and isinstance(heights[0], list) else 0
        rows = json_codec.items(heights, f"{at}.heights", lambda r, where: json_codec.array(r, where, (columns,)), 4096)
        spacing, origin = row("spacing", 2), row("origin", 2)
        return _made("ground", lambda: HeightField(list(rows), spacing, origin, **numbers("friction")))  # type: ignore[arg-type]
    raise Wrong(f"{at}.kind is not Plane, Slope, Stairs or HeightField")


def _plane(fields: dict[str, Any]) -> Plane:
    """The plane, with its normal as it was: a unit vector may change in its last digit when it is scaled again."""
    plane = Plane(**fields)
    if max(abs(a - b) for a, b in zip(plane.normal, fields["normal"], strict=True)) > 1e-12:
        raise Wrong("the normal of the plane has not the length 1")
    object.__setattr__(plane, "normal", fields["normal"])
    return plane


def _read_options(data: Any) -> dict[str, Any]:
    at = "recipe.options"

    def names(name: str) -> Any:
        found = entry(data, name, at)
        return None if found is None else json_codec.items(found, f"{at}.{name}", json_codec.text)

    cone, springs = entry(data, "cone", at), entry(data, "springs", at)
    if springs is not None and (not isinstance(springs, dict) or len(springs) > json_codec.MOST_ITEMS):
        raise Wrong(f"{at}.springs is not a table of joints")
    pairs = None
    if springs is not None:
        pairs = {name: tuple(json_codec.array(pair, f"{at}.springs", (2,)).tolist()) for name, pair in springs.items()}
    return {
        "integrator": json_codec.text(entry(data, "integrator", at), f"{at}.integrator"),
        "substeps": json_codec.whole(entry(data, "substeps", at), f"{at}.substeps", 1, MOST_SUBSTEPS),
        "depth_exponent": json_codec.whole(entry(data, "depth_exponent", at), f"{at}.depth_exponent", 1, 16),
        "cone": cone if isinstance(cone, str) else json_codec.whole(cone, f"{at}.cone", 3, 32),
        **{name: float(json_codec.number(entry(data, name, at), f"{at}.{name}")) for name in NUMBERS},
        **{name: json_codec.truth(entry(data, name, at), f"{at}.{name}") for name in SWITCHES},
        "springs": pairs,
        "actuated": names("actuated"),
        "wrenches": names("wrenches") or (),
    }


def robot_hash(simulation: Simulation) -> str:
    """The hash of all that physics can depend on in the robot's model."""
    return digest(simulation.robot.model)
