"""What was identified: parameters with units and confidence intervals, how well they predict, a robot with them, and files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np

from condyle.atomic_write import READ_ADVICE, PathLike, file_errors, write_bytes
from condyle.errors import FileError
from condyle.methods.identify.base_parameters import BaseParameters
from condyle.methods.identify.consistent import ConsistentNumbers
from condyle.methods.identify.filtering import filtered_motion, slowest_cutoff
from condyle.methods.identify.least_squares import Estimate
from condyle.methods.identify.log import Log
from condyle.methods.identify.regressor import Array, Regressor
from condyle.multibody.robot import Robot
from condyle.robot.parameters import with_parameters

VERSION = 1  # of the JSON file
WEAK = 0.3  # standard error over the size of a number, above which it is called weakly determined


@dataclass(frozen=True)
class Prediction:
    """Joint forces of a log and those that the identified numbers give for its motion, filtered alike: (T,), (T, n) each."""

    t: Array
    measured: Array
    predicted: Array
    nominal: Array  # by the numbers before
    joints: tuple[str, ...]

    @property
    def rms(self) -> Array:
        """Root mean square of measured - predicted of each joint, N m or N."""
        return np.asarray(np.sqrt(np.mean((self.measured - self.predicted) ** 2, axis=0)))

    @property
    def relative(self) -> Array:
        """`rms` over the root mean square of the measured force, of each joint."""
        return np.asarray(self.rms / np.maximum(np.sqrt(np.mean(self.measured**2, axis=0)), 1e-300))

    @property
    def total(self) -> float:
        """|measured - predicted| over |measured|, all joints together."""
        return _size(self.measured - self.predicted) / max(_size(self.measured), 1e-300)

    @property
    def total_nominal(self) -> float:
        """The same of the numbers before."""
        return _size(self.measured - self.nominal) / max(_size(self.measured), 1e-300)


@dataclass(frozen=True)
class Identified:
    """The result of `identify`.

    `estimate`: base parameters by least squares with their covariance. `consistent`: the numbers of all links and joints,
    physically possible, which predict joint forces as well. `prediction`: on the validation log, or on the first one of the fit.
    """

    base: BaseParameters
    estimate: Estimate
    consistent: ConsistentNumbers
    confidence: float
    cutoffs: tuple[float, ...]
    sources: tuple[str, ...]
    rows: int
    prediction: Prediction | None = None
    validated: bool = False
    weak: tuple[str, ...] = field(default=())

    # ---- base parameters

    @property
    def names(self) -> list[str]:
        """Names of the base parameters: their leading number, "+" where others are added; `base.words(k)` has them all."""
        return self.base.names

    @property
    def values(self) -> Array:
        """The base parameters, (n_b,)."""
        return self.estimate.beta

    @property
    def standard_errors(self) -> Array:
        """Of the base parameters, (n_b,)."""
        return self.estimate.standard_errors

    @cached_property
    def quantile(self) -> float:
        """Half the width of a confidence interval over the standard error: 1.96 for 95 %."""
        return NormalDist().inv_cdf(0.5 + 0.5 * self.confidence)

    @property
    def intervals(self) -> Array:
        """Lower and upper ends of the confidence intervals of the base parameters, (n_b, 2)."""
        half = self.quantile * self.standard_errors
        return np.stack([self.values - half, self.values + half], axis=1)

    @property
    def nominal(self) -> Array:
        """The base parameters of the robot before, (n_b,)."""
        return np.asarray(self.base.map @ self.regressor.nominal)

    # ---- numbers of links and joints

    @property
    def regressor(self) -> Regressor:
        """The matrix of all numbers."""
        return self.base.regressor

    @cached_property
    def identifiable(self) -> dict[str, tuple[float, float]]:
        """{name: (value, standard error)} of single numbers that joint forces determine, by least squares."""
        C = self.estimate.covariance
        return {
            self.regressor.names[k]: (float(c @ self.values), float(np.sqrt(c @ C @ c))) for k, c in self.base.alone().items()
        }

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """{name: value} for `parameters=` of simulations and loops: LINK.mass, .com, .inertia, JOINT.damping, ..."""
        found: dict[str, Any] = {}
        columns, pi = self.regressor.columns, self.consistent.pi
        for k, column in enumerate(columns):
            if column.what == "m":
                m, h = pi[k], pi[k + 1 : k + 4]
                xx, xy, yy, xz, yz, zz = pi[k + 4 : k + 10]
                c = h / m
                about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
                inertia = about_origin - m * (c @ c * np.eye(3) - np.outer(c, c))
                found |= {f"{column.owner}.mass": float(m), f"{column.owner}.com": c, f"{column.owner}.inertia": inertia}
            elif column.what in ("armature", "damping", "friction"):
                found[column.name] = float(pi[k])
        return found

    @property
    def offsets(self) -> dict[str, float]:
        """{joint: constant force} where the term "offset" was identified; a robot has no parameter for it."""
        return {c.owner: float(self.consistent.pi[k]) for k, c in enumerate(self.regressor.columns) if c.what == "offset"}

    @cached_property
    def robot(self) -> Robot:
        """The robot with the identified numbers."""
        return Robot(with_parameters(self.regressor.robot.model, self.parameters), self.regressor.robot.locked)

    def predict(self, q: Any, v: Any, a: Any) -> Array:
        """Joint forces of a motion by the identified numbers, (..., n), friction and offsets included."""
        Y, known = self.regressor.with_known(q, v, a)
        return np.asarray(Y @ self.consistent.pi + known)

    def predicted(self, log: Log, cutoff: float | None = None) -> Prediction:
        """The prediction of a log's joint forces from its positions; both are low-pass filtered alike.

        `cutoff`: Hz, a fifth of that of the fit by default, so that less noise of the measured forces is compared.
        """
        motion = filtered_motion(log, cutoff or max(0.2 * self.cutoffs[0], slowest_cutoff(log)), self.regressor.friction_speed)
        Y, known = self.regressor.with_known(motion.q, motion.v, motion.a, motion.direction)
        predicted, nominal = Y @ self.consistent.pi + known, Y @ self.regressor.nominal + known
        return Prediction(motion.t, motion.tau, predicted, nominal, tuple(self.regressor.robot.joint_names))

    # ---- words and files

    def table(self) -> list[dict[str, Any]]:
        """A row for each base parameter: name, words, unit, value, standard error, interval, nominal value, determined."""
        low, high = self.intervals.T
        return [
            {
                "name": name,
                "combination": self.base.words(k),
                "unit": self.base.units[k],
                "value": float(self.values[k]),
                "standard_error": float(self.standard_errors[k]),
                "interval": [float(low[k]), float(high[k])],
                "nominal": float(self.nominal[k]),
                "determined": name not in self.weak,
            }
            for k, name in enumerate(self.names)
        ]

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON data."""
        columns, consistent = self.regressor.columns, self.consistent
        alone = self.identifiable
        numbers = [
            {
                "name": c.name,
                "unit": c.unit,
                "value": float(consistent.pi[k]),
                "nominal": float(self.regressor.nominal[k]),
                "identifiable": c.name in alone,
                "standard_error": alone[c.name][1] if c.name in alone else None,
                "deviation_with_prior": float(consistent.deviations[k]),
            }
            for k, c in enumerate(columns)
        ]
        e = self.estimate
        found: dict[str, Any] = {
            "version": VERSION,
            "robot": self.regressor.robot.name,
            "logs": list(self.sources),
            "terms": list(self.regressor.terms),
            "cutoff": list(self.cutoffs),
            "confidence": self.confidence,
            "rows": self.rows,
            "condition": e.condition,
            "noise": {joint: float(s) for joint, s in zip(self.joints, np.sqrt(np.diag(e.noise)), strict=True)},
            "base_parameters": self.table(),
            "numbers": numbers,
            "parameters": {name: np.asarray(value).tolist() for name, value in self.parameters.items()},
            "offsets": self.offsets,
            "distance_from_nominal": consistent.distances,
        }
        if self.prediction is not None:
            p = self.prediction
            found["prediction"] = {
                "on": "validation" if self.validated else "fit",
                "relative": p.total,
                "relative_before": p.total_nominal,
                "joints": {
                    joint: {"rms": float(a), "relative": float(b)}
                    for joint, a, b in zip(p.joints, p.rms, p.relative, strict=True)
                },
            }
        return found

    @property
    def joints(self) -> list[str]:
        """The joints, in the order of q."""
        return self.regressor.robot.joint_names

    def save(self, path: PathLike) -> None:
        """None; `as_dict` as a JSON file, written atomically. `read_parameters` reads its parameters."""
        write_bytes(path, (json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n").encode())

    def __repr__(self) -> str:
        rows = [("parameter", "value", f"+- {self.confidence:.0%}", "nominal", "unit")]
        for k, row in enumerate(self.table()):
            half = self.quantile * self.standard_errors[k]
            mark = "" if row["determined"] else " (weak)"
            rows.append((row["name"] + mark, f"{row['value']:.6g}", f"{half:.2g}", f"{row['nominal']:.6g}", row["unit"]))
        widths = [max(len(row[k]) for row in rows) for k in range(5)]
        lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        if self.prediction is not None:
            on = "the validation log" if self.validated else "the log of the fit"
            p = self.prediction
            lines.append(f"joint forces of {on}: error {p.total:.2%} of their size, {p.total_nominal:.2%} before")
        return "\n".join(lines)


def _size(values: Array) -> float:
    return float(np.linalg.norm(values))


def read_parameters(path: PathLike) -> dict[str, Any]:
    """{name: value} of a file that `Identified.save` wrote, for `parameters=` of simulations and loops."""
    with file_errors(path, "read", READ_ADVICE), open(path, encoding="utf-8") as stream:
        data = json.load(stream)
    if not isinstance(data, dict) or data.get("version") != VERSION or not isinstance(data.get("parameters"), dict):
        raise FileError(f"{path} is no identification of version {VERSION}: give a file that condyle identify wrote.")
    return {
        name: np.asarray(value, dtype=float) if isinstance(value, list) else value for name, value in data["parameters"].items()
    }
