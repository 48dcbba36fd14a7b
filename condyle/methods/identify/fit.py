"""`identify`: from logs to parameters with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.dynamics.passive import FRICTION_SPEED
from condyle.errors import ControlError
from condyle.methods.identify.base_parameters import BaseParameters, base_parameters
from condyle.methods.identify.consistent import consistent_numbers
from condyle.methods.identify.filtering import chosen_cutoff, filtered_motion
from condyle.methods.identify.identified import WEAK, Identified
from condyle.methods.identify.least_squares import Estimate, column_scaled, least_squares
from condyle.methods.identify.log import Log
from condyle.methods.identify.regressor import DEFAULT_TERMS, Array, Regressor
from condyle.methods.identify.rows import Rows, default_stick_speed, linear_rows
from condyle.multibody.robot import Robot

ILL_CONDITIONED = 1e6  # of the equations with columns of length one: beyond it some combination is not excited
AT_REST = 1e-3  # rad/s or m/s: a joint that is never faster is not moved
NAMED = 6  # parameters in the sentence of an error


def identify(
    robot: Robot,
    logs: Any,
    *,
    terms: Sequence[str] = DEFAULT_TERMS,
    cutoff: float | None = None,
    stick_speed: Any = None,
    friction_speed: float = FRICTION_SPEED,
    spread: float = 0.5,
    total_mass: float | None = None,
    confidence: float = 0.95,
    validation: Any = None,
) -> Identified:
    """The inertial and friction parameters of an arm from logs of q and tau, with confidence intervals.

    `logs`: a `Log` or several. `terms`: see `Regressor`. `cutoff`: Hz, of the low-pass
    filters; by default chosen from the spectrum of the forces. `stick_speed`: rad/s, one or one for each joint: slower samples do
    not enter the equations of a joint with dry friction; 10 % of its largest speed by default. `spread`: the relative error that
    the nominal model may have, `total_mass`: kg, of all moving links, if it is known; both decide only what joint forces do not
    show. `validation`: another log, on which the prediction of joint forces is measured.
    """
    if not 0.0 < confidence < 1.0:
        raise ControlError(f"the confidence must be between 0 and 1, such as 0.95; got {confidence!r:.20}")
    if total_mass is not None and not total_mass > 0.0:
        raise ControlError(f"the total mass must be positive, got {total_mass!r:.20} kg")
    base = base_parameters(Regressor(robot, terms, friction_speed=friction_speed))
    chosen = [_checked_log(each) for each in (logs if isinstance(logs, list | tuple) else [logs])]
    if not chosen:
        raise ControlError("identification needs at least one log")
    cutoffs = tuple(chosen_cutoff(log) if cutoff is None else float(cutoff) for log in chosen)
    parts = []
    for log, hertz in zip(chosen, cutoffs, strict=True):
        motion = filtered_motion(log, hertz, friction_speed)
        _check_moves(robot, motion.v, log.source, base)
        speed = default_stick_speed(motion) if stick_speed is None else _per_joint(stick_speed, robot.nv)
        parts.append(linear_rows(base, motion, speed if "friction" in base.regressor.terms else np.zeros(robot.nv)))
    _check_excitation(base, parts)
    estimate = least_squares(parts)
    consistent = consistent_numbers(base, estimate.beta, estimate.covariance, spread=spread, total_mass=total_mass)
    rows = int(sum(part.used.sum() for part in parts))
    sources = tuple(log.source for log in chosen)
    found = Identified(base, estimate, consistent, confidence, cutoffs, sources, rows, weak=weakly_determined(base, estimate))
    shown = chosen[0] if validation is None else _checked_log(validation)
    prediction = found.predicted(shown)
    return Identified(
        base, estimate, consistent, confidence, cutoffs, sources, rows, prediction, validation is not None, found.weak
    )


def weakly_determined(base: BaseParameters, estimate: Estimate) -> tuple[str, ...]:
    """Names of base parameters whose standard error is more than WEAK of their size, or of that of the nominal model."""
    size = np.maximum(np.abs(estimate.beta), np.abs(base.map @ base.regressor.nominal))
    return tuple(name for name, s, e in zip(base.names, size, estimate.standard_errors, strict=True) if e > WEAK * s)


# ---- checks


def _checked_log(given: Any) -> Log:
    if not isinstance(given, Log):
        raise ControlError(
            f"identify takes Logs, got {type(given).__name__}: read_log(robot, source) of condyle.workbench.runs.logs "
            "reads runs and files"
        )
    return given


def _per_joint(value: Any, n: int) -> Array:
    speeds = np.asarray(value, dtype=float)
    if speeds.shape not in ((), (n,)) or not np.all(speeds >= 0.0):
        raise ControlError(
            f"stick_speed must be one speed that is not negative, or one for each of {n} joints; got {value!r:.60}"
        )
    return np.broadcast_to(speeds, (n,))


def _check_moves(robot: Robot, v: Array, source: str, base: BaseParameters) -> None:
    """Raise if a joint stays at rest: nothing of its friction, nor of what only it moves, can be seen."""
    still = [name for name, speed in zip(robot.joint_names, np.max(np.abs(v), axis=0), strict=True) if speed < AT_REST]
    if still:
        lost = [name for name in base.names if name.partition(".")[0] in still]
        more = f"; so {', '.join(lost[:NAMED])} cannot be identified" if lost else ""
        raise ControlError(
            f"{source}: joint {', '.join(still)} does not move{more}: move every joint (condyle identify ROBOT --excite), or "
            "lock it (robot.lock)"
        )


def _check_excitation(base: BaseParameters, parts: Sequence[Rows]) -> None:
    """Raise if the motion leaves a combination of base parameters open, with the names in it."""
    n = base.regressor.nv
    equations = int(sum(part.used.sum() for part in parts))
    if equations < 2 * len(base.independent):
        raise ControlError(
            f"{equations} independent samples are too few for {len(base.independent)} base parameters: record longer, or give a "
            "higher cut-off"
        )
    S = np.diag([max(np.mean(np.concatenate([part.b[:, j] for part in parts]) ** 2), 1e-12) for j in range(n)])
    s, Vt = column_scaled(parts, S)
    if s[0] <= ILL_CONDITIONED * s[-1]:
        return
    weak = np.sum(Vt[s < s[0] / ILL_CONDITIONED] ** 2, axis=0)
    order = [int(k) for k in np.argsort(-weak) if weak[k] > 0.02][:NAMED]
    named = ", ".join(base.names[k].removesuffix(" +") for k in order)
    raise ControlError(
        f"the motion does not excite every parameter (condition number {s[0] / max(s[-1], 1e-300):.0e}): {named} cannot be "
        "distinguished; record a richer motion (condyle identify ROBOT --excite), or leave terms out"
    )
