"""The kernel of an environment: policy steps of a closed loop with rewards, ends of episodes, resets and observations.

The state of one robot is one row of numbers: the state of its loop, its parameters, its variables, its last action, its counters,
the keys of its random numbers, and its observation. A policy step is

    ticks of the loop under a constant action -> reward, termination -> variables -> reset of those that end -> observation

Random numbers are keyed by seed, robot and the number of the step, which goes on counting over episodes, so none repeats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from condyle.closed_loop.episode import Draw
from condyle.closed_loop.kernel import Context, call_context, held_ticks, repeat_if, word
from condyle.closed_loop.loop import Loop
from condyle.closed_loop.tick import as_numbers
from condyle.errors import ControlError
from condyle.methods.learn.env_values import RANDOMIZATION, Layout, Randomized, packed_layout
from condyle.methods.learn.policy_kernel import PolicyPlan
from condyle.robot.names import nearest
from condyle.simulate.solver import limit
from condyle.tape import random
from condyle.tape.array import array, assemble, isfinite, where
from condyle.tape.compose import traced_array
from condyle.tape.loop import scan
from condyle.tape.precision import by_precision
from condyle.tape.scalar import caller
from condyle.tape.trace import trace

Function = Callable[..., Any]
Record = tuple[tuple[str, Function | None], ...]  # names, and functions of a step for those that are computed
SMOOTHING, SMOOTHING_SINGLE = "contact.smoothing", 1e-4  # the least one in float32, with which actuators at their limits converge
CHANNELS = {name: crc32(name.encode()) for name in ("curriculum", "randomize", "reset", "update", "step", "first", "policy")}
RESULTS = ("reward", "terminated", "truncated", "failed", "episode_return", "episode_length")


@dataclass(frozen=True)
class EnvPlan:
    """An environment as data: the loop, the functions, and what they use and give, found by running them once."""

    loop: Loop
    observe: Function
    reward: Function
    terminate: Function | None
    reset: Function | None
    privileged: Function | None
    update: Function | None
    curriculum: Function | None
    action: str
    every: int
    limit: int | None  # policy steps of an episode
    clip: float | None
    randomized: dict[str, Randomized]
    variables: dict[str, np.ndarray]
    shared: dict[str, tuple[int, ...]]
    observations: int = 0
    privileged_size: int = 0
    terms: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()

    @property
    def actions(self) -> int:
        """Entries of an action."""
        return self.loop.inputs[self.action][0]

    @cached_property
    def layout(self) -> Layout:
        """Where each part of a robot's row is, and its shape; those of the loop come first."""
        shapes: dict[str, tuple[int, ...]] = {name: r.shape for name, r in self.randomized.items()}
        shapes |= {name: value.shape for name, value in self.variables.items()}
        shapes |= {"action": (self.actions,), "episode.step": (), "episode.return": (), "step": (), "seed": (2,), "robot": (2,)}
        shapes |= {"observation": (self.observations,)}
        shapes |= {"privileged": (self.privileged_size,)} if self.privileged_size else {}
        return {**self.loop.layout, **packed_layout(shapes, self.loop.nx)}

    @property
    def size(self) -> int:
        """Numbers of a robot's row."""
        return int(max(place.stop for place, _ in self.layout.values()))

    # ---- values

    def unpacked(self, row: Any) -> dict[str, Any]:
        """The parts of a row: "x" the packed state of the loop, then the others by name."""
        found: dict[str, Any] = {"x": row[: self.loop.nx]}
        for name, (place, shape) in list(self.layout.items())[len(self.loop.layout) :]:
            found[name] = assemble(row[place].tolist(), shape)
        return found

    def packed(self, parts: Mapping[str, Any]) -> Any:
        """The row with these parts."""
        names = ("x", *list(self.layout)[len(self.loop.layout) :])
        entries = [x for name in names for x in np.asarray(parts[name], dtype=object).ravel().tolist()]
        return assemble(entries, (len(entries),))

    def shared_values(self, table: Any) -> dict[str, Any]:
        """Shared values by name, from their table."""
        return {
            name: assemble([table[k] for k in range(place.start, place.stop)], shape)
            for name, (place, shape) in packed_layout(self.shared).items()
        }


class EnvDraw(Draw):
    """Random numbers of a reset or of an update, with values by name: draw["command"] of variables, shared values, parameters.

    Parameters are those of the episode that begins; variables are those of the one that ended, but for what the curriculum gives.
    `t` is its duration in s, and `terminated` whether it ended before its time.
    """

    def __init__(
        self, keys: tuple[Any, Any, Any], channel: str, value: Callable[[str], Any], t: Any = 0.0, terminated: Any = False
    ) -> None:
        super().__init__(*keys, CHANNELS[channel])
        self._value, self.t, self.terminated = value, t, terminated

    def __getitem__(self, name: str) -> Any:
        return self._value(name)

    def choice(self, count: int) -> Any:
        """A whole number from 0 to count - 1."""
        return np.minimum(np.floor(self.uniform(0.0, float(count))), float(count - 1))


class Step:
    """One policy step, after its ticks: `s.x` the robot, `s.action`, and everything with a name as `s["imu.rate"]`."""

    def __init__(
        self, call: Call, context: Context, parts: Mapping[str, Any], signals: Function, previous: Any, before: Any, channel: str
    ) -> None:
        plan = call.plan
        self._context, self._parts, self._before, self._signals = context, plan.loop.unpacked(parts["x"]), before, signals
        self._value = named_values(context, {name: parts[name] for name in plan.variables}, call.shared)
        self._draw = EnvDraw(call.keys(parts), channel, self._value)
        self.action, self.previous_action = parts["action"], previous
        self.dt = context.h * float(plan.every)  # of one policy step, s
        self.t = parts["episode.step"] * self.dt  # of the episode

    @cached_property
    def x(self) -> Any:
        """The robot after the ticks: `condyle.closed_loop.plant.Plant`."""
        return self._context.at(_Parts(self._parts, self._signals))[1]

    @cached_property
    def before(self) -> Any:
        """The robot at the start of the step."""
        return self._context.at(_Parts(self._before, _no_signal))[1]

    def __getitem__(self, name: str) -> Any:
        """A state or signal of the loop, a parameter, a variable or a shared value."""
        if name in self._parts:
            return self._parts[name]
        if name in self._context.loop.plan.signals:
            return self._signals(name)
        return self._value(name)

    def normal(self, shape: int | tuple[int, ...] = ()) -> Any:
        """Normal random numbers of mean 0 and variance 1, others at every step."""
        return self._draw.normal(shape)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, shape: int | tuple[int, ...] = ()) -> Any:
        """Uniform random numbers from `low` to `high`, others at every step."""
        return self._draw.uniform(low, high, shape)


class _Parts(dict[str, Any]):
    """Parts of a state, of which signals of the last tick are part, too."""

    def __init__(self, parts: Mapping[str, Any], signals: Callable[[str], Any]) -> None:
        super().__init__(parts)
        self._signals = signals

    def __missing__(self, name: str) -> Any:
        return self._signals(name)


def _no_signal(name: str) -> Any:
    raise ControlError(f"{caller()}: s.before has no '{name}', which is known of the last tick only; use s.x")


def named_values(context: Context, variables: Mapping[str, Any], shared: Mapping[str, Any]) -> Callable[[str], Any]:
    """Variables, shared values and parameters by name."""

    def value(name: str) -> Any:
        for known in (variables, shared, context.parameters):
            if name in known:
                return known[name]
        parameters = context.loop.parameters
        if isinstance(name, str) and name in parameters:
            spec = parameters[name]
            found = context.parameters.get(spec.name)
            return traced_array(spec.name, np.asarray(spec.default, dtype=float), spec.shape) if found is None else found
        names = [*variables, *shared, *context.loop.layout, *context.loop.plan.signals, *parameters]
        raise ControlError(f"{caller()}: the environment has no '{name!s:.60}'{nearest(name, names)}")

    return value


class Call:
    """What is the same for all steps of a call: shared values, and tables of the loop."""

    def __init__(
        self,
        plan: EnvPlan,
        arrays: Mapping[str, Any],
        signals: tuple[str, ...],
        record: Record = (),
    ) -> None:
        self.plan, self.signals, self.record = plan, signals, record
        self.shared = plan.shared_values(arrays["shared"])
        self.tables = {name: arrays[name] for name in plan.loop.weights}

    def context(self, parts: Mapping[str, Any], start: Any) -> Context:
        """The loop with the parameters of one robot; `start`: the tick at which its episode began."""
        plan = self.plan
        given = {name: parts[name] for name in plan.randomized}
        if SMOOTHING in plan.loop.parameters and SMOOTHING not in given:
            given[SMOOTHING] = np.maximum(plan.loop.parameters[SMOOTHING].default, by_precision(0.0, SMOOTHING_SINGLE))
        arrays = {**given, **self.tables, "seed": parts["seed"], "robot": parts["robot"]}
        found = call_context(plan.loop, arrays, tuple(given))
        return replace(found, start=start)

    def references(self, action: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
        """What the loop is given: the action, and variables that are references."""
        plan = self.plan
        return {name: action if name == plan.action else array(variables[name]).reshape(-1) for name in plan.loop.inputs}

    # ---- one policy step

    def step(self, parts: dict[str, Any], given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """(parts after a policy step, results) for an action."""
        plan, loop = self.plan, self.plan.loop
        every = float(plan.every)
        action = given if plan.clip is None else np.minimum(np.maximum(given, -plan.clip), plan.clip)
        context = self.context(parts, (parts["step"] - parts["episode.step"]) * every)
        shapes = {name: loop.plan.signals[name] for name in self.signals}
        start = {"x": parts["x"], "residual": 0.0, **{name: np.zeros(math.prod(shape)) for name, shape in shapes.items()}}
        end = held_ticks(context, start, self.references(action, parts), plan.every)
        signals = {name: end[name].reshape(shape) for name, shape in shapes.items()}
        count, age = parts["step"] + 1.0, parts["episode.step"] + 1.0
        # a robot that stopped within the step kept its tick
        after = parts | {"x": _with_tick(loop, end["x"], count * every), "action": action, "step": count, "episode.step": age}
        last = signals.__getitem__, parts["action"], loop.unpacked(parts["x"]), "step"
        s = Step(self, context, after, *last)

        terms = self.terms(s)
        total = sum(list(terms.values())[1:], next(iter(terms.values())))
        terminated = False if plan.terminate is None else _comparison("terminate", plan.terminate(s))
        after |= self.updated(s, after)
        s = Step(self, context, after, *last)
        after |= self.observed(s)
        recorded = {name: s[name] if function is None else function(s) for name, function in self.record}
        # a sum is finite only if all its terms are
        names = ("observation", *(("privileged",) if plan.privileged is not None else ()), *plan.variables)
        looked_at = [x for name in names for x in np.ravel(after[name])]
        fine = isfinite(sum((*looked_at, *given), total)) & (end["residual"] <= limit())
        reward = where(fine, total, 0.0)
        after |= {name: where(fine, after[name], parts[name]) for name in names}
        after["episode.return"] = parts["episode.return"] + reward
        terminated = ~fine | terminated
        truncated = ~terminated & (age >= float(plan.limit)) if plan.limit is not None else ~terminated & terminated
        results = {
            "reward": reward,
            "terminated": where(terminated, 1.0, 0.0),
            "truncated": where(truncated, 1.0, 0.0),
            "failed": where(fine, 0.0, 1.0),
            "episode_return": after["episode.return"],
            "episode_length": age,
            "terms": array([where(fine, x, 0.0) for x in terms.values()]),
            "final_observation": after["observation"],
            "recorded": {name: np.ravel(array(as_numbers(value))) for name, value in recorded.items()},
        }
        if plan.privileged is not None:
            results["final_privileged"] = after["privileged"]

        def restarted(_: Any, __: Any) -> Any:
            return self.begun(after, terminated)

        return repeat_if(terminated | truncated, restarted, after), results

    def keys(self, parts: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """The keys of random numbers: seed, robot, number of the step."""
        return word(parts["seed"]), word(parts["robot"]), parts["step"]

    def policy_noise(self, parts: Mapping[str, Any], count: int) -> Any:
        """Normal random numbers of a policy."""
        return random.normal(*self.keys(parts), CHANNELS["policy"], shape=count)

    def terms(self, s: Step) -> dict[str, Any]:
        """The terms of the reward by name."""
        found = self.plan.reward(s)
        named = dict(found) if isinstance(found, Mapping) else {"reward": found}
        if not named:
            raise ControlError("reward gives no terms; return a number, or {name: number}")
        return {str(name): _number(f"reward '{name}'", value) for name, value in named.items()}

    def observed(self, s: Step) -> dict[str, Any]:
        """Observations by name."""
        found = {"observation": _vector("observe", self.plan.observe(s))}
        if self.plan.privileged is not None:
            found["privileged"] = _vector("privileged", self.plan.privileged(s))
        return found

    def updated(self, s: Step, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Variables that change with this step."""
        plan = self.plan
        if plan.update is None:
            return {}
        draw = EnvDraw(self.keys(parts), "update", s.__getitem__, s.t)
        found = plan.update(s, draw)
        shapes = {name: value.shape for name, value in plan.variables.items()}
        return _shaped("update", found, shapes, "a variable")

    def begun(self, parts: Mapping[str, Any], terminated: Any = None) -> dict[str, Any]:
        """The parts at the start of an episode, with the counters and keys of `parts`.

        `terminated`: whether the last one ended so, if it came to its end by itself; a curriculum goes on then.
        """
        plan, loop = self.plan, self.plan.loop
        every = float(plan.every)
        old = self.context(parts, parts["step"] * every)
        variables = {name: parts[name] for name in plan.variables}
        duration = parts["episode.step"] * (old.h * every)
        kept: dict[str, Any] = {}
        ended = False if terminated is None else terminated
        if plan.curriculum is not None:
            draw = EnvDraw(self.keys(parts), "curriculum", named_values(old, variables, self.shared), duration, ended)
            shapes = {name: value.shape for name, value in plan.variables.items()}
            kept = _shaped("curriculum", plan.curriculum(draw), shapes, "a variable")
            kept = {name: parts[name] if terminated is None else value for name, value in kept.items()}
            variables |= kept
        draw = EnvDraw(self.keys(parts), "randomize", named_values(old, variables, self.shared), duration)
        strength = self.shared[RANDOMIZATION]
        after = dict(parts) | {name: each.drawn(draw, strength) for name, each in plan.randomized.items()}
        context = self.context(after, parts["step"] * every)
        draw = EnvDraw(self.keys(parts), "reset", named_values(context, variables, self.shared), duration, ended)
        given = {} if plan.reset is None else plan.reset(draw)
        shapes = {name: shape for name, (_, shape) in loop.layout.items() if name != "tick"}
        shapes |= {name: value.shape for name, value in plan.variables.items()}
        given = _shaped("reset", given, shapes, "a state of the loop or a variable")
        values = {name: given.get(name, value) for name, value in loop.initial.items()} | {"tick": parts["step"] * every}
        after |= {name: given.get(name, kept.get(name, value)) for name, value in plan.variables.items()}
        after |= {"action": np.zeros(plan.actions), "episode.step": 0.0, "episode.return": 0.0}
        signals: dict[str, Any] = {}
        if self.signals:
            values, signals = context.begin(values, self.references(after["action"], after))
        after["x"] = loop.packed(values)
        s = Step(self, context, after, signals.__getitem__, after["action"], values, "first")
        after |= self.observed(s)
        return {name: _like(after[name], value) for name, value in parts.items()}


def _with_tick(loop: Loop, x: Any, tick: Any) -> Any:
    values = list(x)
    values[loop.layout["tick"][0].start] = tick
    return assemble(values, (len(values),))


def _like(value: Any, other: Any) -> Any:
    """A value with the shape of another."""
    entries = np.broadcast_to(np.asarray(value, dtype=object), np.shape(other))
    return assemble(entries.ravel().tolist(), entries.shape)


# ---- what functions return


def _vector(what: str, value: Any) -> Any:
    try:
        found = np.asarray(array(as_numbers(value)), dtype=object)
    except (TypeError, ValueError):
        raise ControlError(
            f"{what} must return a vector of numbers, got {type(value).__name__}; join parts by np.concatenate"
        ) from None
    if found.ndim != 1 or not found.size:
        raise ControlError(f"{what} must return a vector of numbers, got shape {found.shape}; join its parts by np.concatenate")
    return assemble(found.tolist(), found.shape)


def _number(what: str, value: Any) -> Any:
    found = np.asarray(as_numbers(value), dtype=object)
    if found.size != 1:
        raise ControlError(f"{what} must be one number for each robot, got shape {found.shape}; sum it, or take its mean")
    return found.ravel()[0]


def _comparison(what: str, value: Any) -> Any:
    found = np.asarray(value, dtype=object)
    if found.size != 1:
        raise ControlError(f"{what} must return one comparison, got shape {found.shape}; combine them with | and &")
    return array([_number(what, value)])[0] > 0.5


def _shaped(what: str, given: Any, shapes: Mapping[str, tuple[int, ...]], kind: str) -> dict[str, Any]:
    """What a reset or an update returned, each value in the shape of its name."""
    if not isinstance(given, Mapping):
        raise ControlError(f"{what} must return a dict {{name: value}}, got {type(given).__name__}")
    found = {}
    for name, value in given.items():
        if name not in shapes:
            raise ControlError(f"{what} gives '{name!s:.60}', which is not {kind}{nearest(name, list(shapes))}")
        entries = np.asarray(as_numbers(value), dtype=object)
        try:
            entries = np.broadcast_to(entries, shapes[name])
        except ValueError:
            raise ControlError(f"{what} gives '{name}' with shape {entries.shape}, expected {shapes[name]}") from None
        found[name] = assemble(entries.ravel().tolist(), shapes[name])
    return found


# ---- kernels


def discovered(plan: EnvPlan, record: Record = ()) -> tuple[EnvPlan, dict[str, tuple[int, ...]]]:
    """(the plan with sizes of observations, names of terms and signals used, shapes of records): its functions run on a row once.

    There is no physics in it.
    """
    loop, found = plan.loop, list[tuple[EnvPlan, dict[str, tuple[int, ...]]]]()

    def probe(row: Any, **arrays: Any) -> Any:
        used: dict[str, None] = dict.fromkeys(plan.signals)

        def signal(name: str) -> Any:
            if name not in loop.plan.signals:
                raise ControlError(f"the loop has no signal '{name!s:.60}'{nearest(name, list(loop.plan.signals))}")
            used[name] = None
            # traced values that nothing folds
            shape = loop.plan.signals[name]
            return np.zeros(shape) + row[0] * 0.0 if shape else row[0] * 0.0

        call, parts = Call(plan, arrays, ()), plan.unpacked(row)
        s = Step(call, call.context(parts, 0.0), parts, signal, parts["action"], loop.unpacked(parts["x"]), "step")
        shapes = {name: np.shape(as_numbers(s[name] if function is None else function(s))) for name, function in record}
        observed, terms = call.observed(s), call.terms(s)
        if plan.terminate is not None:
            _comparison("terminate", plan.terminate(s))
        call.updated(s, parts)
        sizes: dict[str, Any] = {"observations": len(observed["observation"]), "terms": tuple(terms)}
        sizes["privileged_size"] = len(observed["privileged"]) if "privileged" in observed else 0
        again = Call(replace(plan, signals=(), **sizes), arrays, ())
        again.signals = ("any",) if used else ()  # so that a reset runs the loop's function
        again.begun({**parts, **observed}, row[0] > 0.0)
        found.append((replace(plan, signals=tuple(used), **sizes), shapes))
        return {"row": row}

    tables = {name: w.shape for name, w in loop.weights.items()}
    trace(probe, row=plan.size, shared=sum(math.prod(s) for s in plan.shared.values()), **tables)
    return found[-1]


def reset_kernel(plan: EnvPlan) -> Function:
    """The traced function that begins episodes of the robots whose `mask` is above zero."""

    def reset(row: Any, mask: Any, **arrays: Any) -> Any:
        call, parts = Call(plan, arrays, plan.signals), plan.unpacked(row)
        parts["step"] = where(mask > 0.0, parts["step"] + 1.0, parts["step"])
        return {"row": plan.packed(repeat_if(mask > 0.0, lambda _, state: call.begun(state), parts))}

    return reset


def rollout_kernel(
    plan: EnvPlan,
    policy: PolicyPlan | None,
    record: Record,
    signals: tuple[str, ...],
    final: bool,
) -> Function:
    """The traced function of any number of policy steps; without a policy its rows are actions."""

    def rollout(row: Any, rows: Any, **arrays: Any) -> dict[str, Any]:
        call = Call(plan, arrays, signals, record)
        memory = {} if policy is None else policy.memory(arrays)
        sums = {} if policy is None else {"terms": np.zeros(len(plan.terms))}
        start = {"parts": plan.unpacked(row), "memory": memory, **sums}

        def body(_: Any, state: Any, given: Any) -> Any:
            parts, memory, out = state["parts"], state["memory"], {}
            if policy is None:
                action = given
            else:
                action, mean, memory = policy.act(call, parts, memory, arrays)
                out = {"observations": parts["observation"], "actions": action, "means": mean}
                out |= {"privileged": parts["privileged"]} if plan.privileged is not None else {}
            parts, results = call.step(parts, action)
            if policy is not None:
                ended = results["terminated"] + results["truncated"] > 0.0
                memory = policy.forgotten(memory, ended)
            out["results"] = array([results[name] for name in RESULTS])
            after = {"parts": parts, "memory": memory}
            if policy is None:
                out["results"] = np.concatenate([out["results"], results["terms"]])
            else:
                after["terms"] = state["terms"] + results["terms"]
            if final:
                out |= {name: results[name] for name in ("final_observation", "final_privileged") if name in results}
            return after, out | {f"record {name}": value for name, value in results["recorded"].items()}

        end, written = scan(body, start, rows)
        found = {"row": plan.packed(end["parts"]), "last_observation": end["parts"]["observation"], **written}
        found |= {"last_privileged": end["parts"]["privileged"]} if plan.privileged is not None else {}
        if policy is not None:
            found |= {"term_sums": end["terms"], **({"memory": policy.packed(end["memory"])} if policy.states else {})}
        return found

    return rollout
