"""The reference of the public names as Markdown: signatures, docstrings, methods and properties, read from the package."""

from __future__ import annotations

import inspect
import re
import textwrap
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

# page: (title, what it is about, names); a name without a dot is one of `condyle`, otherwise module:name or module:*
PAGES: dict[str, tuple[str, str, str]] = {
    "robot": ("Robot", "A robot and its compiled functions; how to load, describe and examine one.", "load Robot diagnose"),
    "simulation": (
        "Simulation",
        "A robot in a world: steps, rollouts, derivatives and grounds.",
        "Simulation Plane Slope Stairs HeightField Uneven Terrain",
    ),
    "loop": ("Loop and Block", "The closed loop in one kernel.", "Loop Block Episode stance Stance"),
    "blocks": ("Blocks", "Actuators, sensors, filters, delays, controllers and policies for closed loops.", "condyle.blocks:*"),
    "runs": ("Runs", "Recorded runs: writing, reading, replay, exports.", "Recorder Run read_run export_run import_run"),
    "control": (
        "Control of arms",
        "Controllers as blocks, motions as references, and linear-quadratic regulators.",
        "lqr dlqr condyle.methods.control.arm_controller:* condyle.methods.control.joint_control:* "
        "condyle.methods.control.adaptive:* condyle.methods.control.lqr_control:* condyle.methods.control.task_control:* "
        "condyle.methods.control.force_control:* condyle.methods.control.external_wrench:* "
        "condyle.methods.control.differential_ik:* condyle.methods.control.passivity:* condyle.methods.planning.profiles:* "
        "condyle.methods.planning.paths:* condyle.methods.planning.joined_path:* condyle.methods.planning.time_optimal:* "
        "condyle.methods.mpc.arm_mpc:*",
    ),
    "kinematics": (
        "Inverse kinematics",
        "Closed forms, paths, and measures of singularity; `robot.inverse_kinematics` is on the page of robots.",
        "condyle.multibody.closed_form_kinematics:* condyle.multibody.inverse_kinematics_path:* "
        "condyle.multibody.manipulability:* condyle.workbench.view.workspace:*",
    ),
    "lab": ("Arm lab", "Experiments as data, metrics, sweeps and searches.", "condyle.apps.lab:* condyle.apps.lab.metrics:*"),
    "obstacles": (
        "Obstacles",
        "Shapes, their distances, and those of a robot from them and from itself.",
        "obstacles condyle.methods.planning.obstacles:*",
    ),
    "avoidance": (
        "Avoidance and planning",
        "Potential fields, null spaces, the safety filter, and joint paths between obstacles.",
        "condyle.methods.control.avoidance:* condyle.methods.control.safety_filter:* condyle.methods.planning:*",
    ),
    "mpc": ("Model-predictive control", "Optimal control problems, solvers and estimators.", "ocp mpc condyle.methods.mpc:*"),
    "identify": ("Identification", "Parameters of arms from logs, and excitations.", "condyle.methods.identify:*"),
    "learn": ("Learning", "Environments of many robots in one kernel.", "VectorEnv"),
    "flight": ("Flying", "Airframes, vehicles in the air, and their controllers.", "flight condyle.apps.flight:*"),
    "view": ("Viewing", "The viewer, pictures, videos and notebooks.", "open_window show save_picture save_video"),
    "description": (
        "Robots in Python",
        "The robot as data, and short functions that make its parts.",
        "Description condyle.robot.description:* condyle.robot.parts:*",
    ),
    "dynamics": (
        "Dynamics",
        "The algorithms as functions of a model, for any scalar: for use inside of traced functions.",
        "condyle.dynamics.kinematics:* condyle.dynamics.rnea:* condyle.dynamics.aba:* condyle.dynamics.crba:* "
        "condyle.dynamics.coriolis:* condyle.dynamics.energy:* condyle.dynamics.regressor:* condyle.dynamics.manifold:*",
    ),
    "compiler": (
        "Compiler",
        "Traced functions, their derivatives, loops, tables and parameters.",
        "function Function trace Rows Uniform Tape array where fma isfinite stop_gradient table zeros_table Table loop scan "
        "map_rows custom_jvp linearize implicit fixed_point parameter save_bundle load_bundle Parameter",
    ),
    "linalg": ("Linear algebra", "Small dense linear algebra inside of a trace and outside.", "condyle.tape.linalg:*"),
    "random": ("Random numbers", "Random numbers that are functions of a key and a counter.", "condyle.tape.random:*"),
    "connect": (
        "Connections",
        "Compiled functions as operations of PyTorch and JAX; programs, topics and bags around a simulation.",
        "condyle.workbench.connect.torch:* condyle.workbench.connect.jax:* condyle.workbench.connect.external:* "
        "condyle.workbench.connect.shared_memory:* condyle.workbench.connect.websocket:* condyle.workbench.connect.client:* "
        "condyle.workbench.connect.ros2_bridge:* condyle.workbench.connect.ros2_node:* condyle.workbench.runs.bags:*",
    ),
    "errors": ("Errors", "All exceptions; `except cd.CondyleError` catches every one.", "condyle.errors:*"),
}


def reference_markdown(name: str) -> str:
    """One page of the reference."""
    title, about, names = PAGES[name]
    parts = [f"# {title}", about]
    for label, value in objects(names):
        parts += class_parts(label, value) if inspect.isclass(value) else function_parts(label, value, "##")
    return "\n\n".join(parts)


def objects(names: str) -> list[tuple[str, Any]]:
    """(name as it is written in programs, object) of the entries of a page."""
    package = import_module("condyle")
    found: dict[str, Any] = {}
    for name in names.split():
        module, colon, member = name.partition(":")
        if not colon:
            found[f"cd.{name}"] = getattr(package, name)
            continue
        source = import_module(module)
        prefix = {"condyle.blocks": "cd.blocks", "condyle.tape.linalg": "cd.linalg", "condyle.tape.random": "cd.random"}.get(
            module, module
        )
        prefix = {
            "condyle.workbench.connect.torch": "cd.torch",
            "condyle.workbench.connect.jax": "cd.jax",
            "condyle.errors": "cd",
        }.get(module, prefix)
        for each in public(source) if member == "*" else [member]:
            value = getattr(source, each)
            if not any(value is known for known in found.values()):
                found[f"{prefix}.{each}"] = value
    return list(found.items())


def public(module: ModuleType) -> list[str]:
    """Public functions and classes of a module, in the order of its source; those of __all__ if it has one."""
    listed = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and f"{getattr(value, '__module__', '')}.".startswith(f"{module.__name__}.")
    ]
    return [name for name in listed if callable(getattr(module, name)) and inspect.getdoc(getattr(module, name))]


def function_parts(label: str, value: Any, mark: str) -> list[str]:
    """Heading, signature and docstring of a function."""
    return [f"{mark} `{label}`", code(f"{label}{signature(value, label)}"), docstring(value), origin(value)]


def class_parts(label: str, value: type) -> list[str]:
    """Heading, constructor, docstring, fields, properties and methods of a class."""
    parts = [f"## `{label}`"]
    if not issubclass(value, Exception):
        parts.append(code(f"{label}{signature(value, label)}"))
    bases = [f"`{documented()[base]}`" for base in value.__mro__[1:] if base in documented()]
    parts += [docstring(value), origin(value) + (f" *A {bases[0]}, with its methods.*" if bases else "")]
    if value.__init__.__doc__ and "__init__" in vars(value) and not getattr(value, "__dataclass_fields__", None):
        parts.append(docstring(value.__init__))
    properties, methods = [], []
    for name, member in members(value):
        if isinstance(member, property) or not callable(member):
            said = first_line(member.fget if isinstance(member, property) else getattr(member, "func", member))
            if said:
                properties.append(f"| `{name}` | {cell(said)} |")
        elif inspect.getdoc(member):
            methods += [f"### `{label.rpartition('.')[2]}.{name}`", code(f"{name}{signature(member, name)}"), docstring(member)]
    if properties:
        parts.append("\n".join(["| property | |", "|---|---|", *properties]))
    return parts + methods


@cache
def documented() -> dict[type, str]:
    """{class: name} of all classes of the reference."""
    return {value: label for _, _, names in PAGES.values() for label, value in objects(names) if inspect.isclass(value)}


def members(value: type) -> list[tuple[str, Any]]:
    """Public methods and properties in the order of their sources; those of bases with an entry of their own are left out."""
    found: dict[str, Any] = {}
    for kind in reversed(value.__mro__):
        if not kind.__module__.startswith("condyle") or (kind is not value and kind in documented()):
            continue
        for name, member in vars(kind).items():
            if isinstance(member, classmethod | staticmethod):
                member = member.__func__
            shown = callable(member) or isinstance(member, property) or hasattr(member, "func")
            if shown and not name.startswith("_") and not inspect.isclass(member):
                found[name] = member
    return list(found.items())


def signature(value: Any, label: str = "") -> str:
    """The parameters with their types and defaults, one per line if they are long; "(...)" where Python cannot tell."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    kept = [each for name, each in found.parameters.items() if name not in ("self", "cls")]
    text = tidy(found.replace(parameters=kept))
    if inspect.isclass(value) or text.endswith(" -> None"):
        text = text.removesuffix(" -> None")
    if len(label) + len(text) <= 92:
        return text
    lines, marked = [], False
    for each in kept:
        if each.kind is each.KEYWORD_ONLY and not marked:
            lines.append("    *,")
            marked = True
        marked = marked or each.kind is each.VAR_POSITIONAL
        lines.append(f"    {tidy(each)},")
    end = text.rpartition(") -> ")[2] if ") -> " in text else ""
    return "(\n" + "\n".join(lines) + "\n)" + (f" -> {end}" if end else "")


def tidy(written: inspect.Signature | inspect.Parameter) -> str:
    """A signature or a parameter without modules, addresses and the quotes of postponed types."""
    text = re.sub(r"<function ([\w.]+) at 0x\w+>", r"\1", str(written))
    text = re.sub(r"\b(?:condyle|collections|numpy|typing|pathlib|os)(?:\.\w+)*\.(?=[A-Z]|ndarray|float64)", "", text)
    return re.sub(r"(: |-> )(['\"])(.*?)\2(?=$|,|\)| =)", r"\1\3", text)


def docstring(value: Any) -> str:
    """The docstring; indented lines are a block of their own, other line breaks stay."""
    text = inspect.getdoc(value) or ""
    text = re.sub(r"<(?=\w)", "&lt;", text)
    return "\n\n".join(part if part.startswith("    ") else textwrap.dedent(part) for part in text.split("\n\n"))


def first_line(value: Any) -> str:
    """The first paragraph of a docstring in one line."""
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|")


def code(text: str) -> str:
    """A block of Python."""
    return f"```python\n{text}\n```"


def origin(value: Any) -> str:
    """Where something is defined."""
    module = getattr(value, "__module__", "") or ""
    return f"*Defined in `{module.replace('.', '/')}.py`.*" if module.startswith("condyle") else ""
