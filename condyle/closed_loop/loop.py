"""A closed loop: a Python function around a robot, traced once and compiled into one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from condyle.closed_loop.arguments import (
    DeviceKeys,
    References,
    as_precise_as,
    check_arguments,
    halves,
    reference_shape,
    references_of,
    rows_of,
    state_array,
    whole_number,
)
from condyle.closed_loop.block import Weights
from condyle.closed_loop.derivatives import jacobian_kernel
from condyle.closed_loop.episode import Episode, check_reset
from condyle.closed_loop.failures import find_failures
from condyle.closed_loop.kernel import (
    Plan,
    Schedule,
    call_context,
    discover,
    first_resets,
    laws_kernel,
    recordable,
    rollout_kernel,
)
from condyle.errors import ControlError, require_importable
from condyle.robot.names import nearest
from condyle.robot.parameters import Parameters
from condyle.simulate.one_state import OK, CheckedParameters
from condyle.simulate.parameters import world_parameters
from condyle.simulate.simulation import Simulation
from condyle.simulate.solver import LIMIT
from condyle.simulate.standing import initial_configuration
from condyle.simulate.status import LastStatus, Status
from condyle.simulate.world import World
from condyle.tape.array import array
from condyle.tape.compose import any_traced, traced_array
from condyle.tape.device import joined, on_device, placed_alike, repeated
from condyle.tape.function import Function
from condyle.tape.progress import compiling
from condyle.tape.table import is_recording, table
from condyle.tape.threads import made_once
from condyle.tape.trace import Rows, Uniform
from condyle.tape.trace_cache import traced_function


class Rollout(dict[str, np.ndarray]):
    """Records by name, each (..., rows, *shape), with the final state `x` and the `status` of the solver."""

    def __init__(self, records: dict[str, np.ndarray], x: np.ndarray, status: Status) -> None:
        super().__init__(records)
        self.x, self.status = x, status


class Loop:
    """A robot in its world with everything around it: `function(x, **references)` gives the controls of each tick.

        loop = cd.Loop(world, control, command=3)

    `function` is traced once. x is the state of the robot (`condyle.closed_loop.plant.Plant`): x.q, x.v, x.t, x.frame_pose(name);
    blocks are called inside. It returns the joint forces u (nu,), or a dict with "u", "wrenches" ({frame: six numbers, or (six
    numbers, "local")}), "parameters" ({name: value} of the world, for this tick) and any further outputs, which can be recorded.
    Keywords name the references with their sizes. A tick is one step of the simulation, dt. States are packed values
    x = (q, v, tick, states of blocks), one or any batch of them; nothing is kept between calls.

    Without a robot (`cd.Loop(None, function, dt=0.001)`) the function gets the time, and returns its outputs.
    """

    def __init__(
        self,
        world: Simulation | None,
        function: Callable[..., Any],
        /,
        *,
        episode: Episode | None = None,
        dt: float | None = None,
        **references: Any,
    ) -> None:
        if world is not None and not isinstance(world, Simulation):
            raise ControlError(f"a loop needs a condyle.Simulation, or None; got {type(world).__name__}")
        if not callable(function):
            raise ControlError(f"a loop needs a function (x, references) -> controls, got {type(function).__name__}")
        if world is None and (dt is None or not math.isfinite(dt) or dt <= 0.0):
            raise ControlError(f"a loop without a robot needs the length of a tick, dt > 0 in seconds; got {dt!r:.40}")
        if world is not None and dt is not None:
            raise ControlError("the length of a tick is the dt of the simulation; set it there")
        if episode is not None and not isinstance(episode, Episode):
            raise ControlError(f"episode must be a condyle.Episode, got {type(episode).__name__}")
        self.world, self.function, self.episode = world, function, episode
        self.inputs = {name: reference_shape(name, size) for name, size in references.items()}
        self.dt: float = world.dt if world is not None else float(dt)  # type: ignore[arg-type]
        self.plant: World | None = None if world is None else world.world
        self.integrator = "" if world is None else world.integrator
        self.substeps = 1 if world is None else world.substeps
        self.nq = 0 if self.plant is None else self.plant.reduced.nq
        self.nv = 0 if self.plant is None else self.plant.nv
        self._last = LastStatus()
        self.built_in: tuple[str, dict[str, Any]] | None = None  # name and options of a loop that Condyle makes, for run files
        self._functions: dict[Any, Function] = {}
        self._quick: dict[Any, Any] = {}  # what a step of one robot needs
        self._checked = CheckedParameters()
        self._passes: dict[Any, tuple[Function, Function]] = {}  # forward and backward, by function and names
        self._device_keys = DeviceKeys()
        self._known_keys: dict[Any, Any] = {}  # (seed, robot) of the last step of one robot, as its kernel takes them
        check_arguments(function, list(self.inputs))
        self.plan: Plan = discover(self)
        if episode is not None:
            episode.check(self.layout)
            self._check_resets(episode)

    def _check_resets(self, episode: Episode) -> None:
        """Raise a ControlError if states at which episodes begin have quaternions that are not of length 1."""
        if self.world is None:
            return
        for q in (first_resets(self), episode.tables["q"].default if "q" in episode.tables else None):
            if q is not None:
                check_reset(self.world.robot.reduced, q)

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace which uses the loop depends on."""
        return self.world, self.function, self.dt, self.inputs, self.episode

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies hold what the loop is made of; compiled functions come again from the cache."""
        require_importable("the loop", self.function)
        sizes = {name: size for name, (size,) in self.inputs.items()}
        dt = self.dt if self.world is None else None
        return partial(Loop, self.world, self.function, episode=self.episode, dt=dt, **sizes), (), {"built_in": self.built_in}

    @cached_property
    def parameters(self) -> Parameters:
        """Every number that may be given with a call, by name, with unit, default and bounds: of robot, world and blocks."""
        world = None if self.plant is None else world_parameters(self.plant)
        own = [p.spec for block in self.plan.blocks.values() for p in block.parameters.values()]
        name = "the loop" if self.world is None else f"the loop of '{self.world.robot.name}'"
        return Parameters([*own, *(world or {}).values()], {} if world is None else world.aliases, name)

    @property
    def status(self) -> Status | None:
        """Which robots were stepped by the last call of this thread, and their residuals; None before its first call."""
        return self._last.value

    # ---- sizes and states

    @cached_property
    def layout(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """Where each named part of a state is in x, and its shape."""
        sizes: dict[str, tuple[int, ...]] = {"q": (self.nq,), "v": (self.nv,)} if self.plant is not None else {}
        sizes |= {"tick": (), **{name: value.shape for name, value in self.plan.states.items()}}
        layout, at = {}, 0
        for name, shape in sizes.items():
            layout[name] = (slice(at, at + math.prod(shape)), shape)
            at += math.prod(shape)
        return layout

    @cached_property
    def initial(self) -> dict[str, np.ndarray]:
        """The parts of a state at tick 0: the robot at rest where it begins, blocks at their initial states."""
        given = {"tick": np.zeros(())} | self.plan.states
        if self.world is not None:
            given |= {"q": initial_configuration(self.world), "v": np.zeros(self.nv)}
        return {name: given[name] for name in self.layout}

    @property
    def ndx(self) -> int:
        """Entries of a small change of state: q along its tangent space, then the other entries of x."""
        return self.nx if self.plant is None else self.nx - self.nq + self.plant.nd

    @property
    def nx(self) -> int:
        """Entries of a state."""
        return int(max(where.stop for where, _ in self.layout.values()))

    def unpacked(self, x: Any) -> dict[str, Any]:
        """{name: value} of a state, one or a batch."""
        found = {}
        for name, (where, shape) in self.layout.items():
            part = x[..., where]
            found[name] = part.reshape(*part.shape[:-1], *shape) if shape or part.ndim > 1 else part[0]
        return found

    def packed(self, parts: Mapping[str, Any]) -> Any:
        """The state with these parts, of one robot."""
        return array(np.concatenate([np.asarray(parts[name], dtype=object).ravel() for name in self.layout]))

    def state(self, q: Any = None, v: Any = None, **states: Any) -> np.ndarray:
        """The packed state at tick 0: neutral and at rest by default, blocks at their initial states.

        Other states by name, with _ or "**" for the dot: state(**{"servo.angle": 0.1}); batches broadcast.
        """
        given = dict(self.initial)
        lead: tuple[int, ...] = ()
        if self.world is not None:
            base = self.world.state(q, v)
            lead = base.shape[:-1]
            given |= {"q": base[..., : self.nq], "v": base[..., self.nq : self.nq + self.nv]}
        for name, value in states.items():
            if name not in self.layout:
                raise ControlError(
                    f"the loop has no state '{name:.60}'{nearest(name, list(self.layout))}; it has {', '.join(self.layout)}"
                )
            given[name] = value if on_device((value,)) else np.asarray(value, dtype=float)
            shape = self.layout[name][1]
            if tuple(given[name].shape[max(given[name].ndim - len(shape), 0) :]) != shape:
                raise ControlError(f"state '{name}' has shape {shape}, got {tuple(given[name].shape)}")
            lead = np.broadcast_shapes(lead, given[name].shape[: given[name].ndim - len(shape)])
        if on_device(given.values()):
            parts = placed_alike(given)
            rows = [repeated(parts[name], (*lead, *shape)).reshape(*lead, -1) for name, (_, shape) in self.layout.items()]
            return joined(rows, -1)  # type: ignore[no-any-return]
        x = np.zeros((*lead, self.nx))
        for name, (where, shape) in self.layout.items():
            value = np.broadcast_to(given[name], (*lead, *shape))
            x[..., where] = value.reshape(*lead, -1)
        return x

    # ---- in time

    def step(
        self,
        x: Any,
        references: References = None,
        *,
        seed: int = 0,
        robots: Any = None,
        parameters: Mapping[str, Any] | None = None,
        record: Sequence[str] = (),
        derivatives: bool = False,
        freeze: bool = False,
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> Any:
        """The state after one tick; with `record`, (state, {name: value}). It is a rollout of one tick, with the same bits.

        With derivatives=True also A (ndx, ndx) and B (ndx, size), or a dict of B by the name of the reference if there are
        several: dx1 = A dx + B dr in the tangent space. Inside a trace, with traced values, the tick is recorded; a robot that
        does not converge stays as it is.
        """
        names = tuple(record)
        if is_recording() and any_traced((x, references, parameters and list(parameters.values()), robots, seed)):
            return self._traced(x, references, seed, robots, parameters or {}, names)
        if backend == "cpu" and lanes is None and threads is None:
            found = self._one_state(x, references, seed, robots, parameters or {}, names)
            if found is not None and not derivatives:
                return found
        rows = {name: value[..., None, :] for name, value in references_of(self.inputs, references).items()}
        out = self.rollout(
            x,
            rows,
            1,
            seed=seed,
            robots=robots,
            parameters=parameters,
            record=names,
            freeze=freeze,
            backend=backend,
            lanes=lanes,
            threads=threads,
        )
        lead = out.x.ndim - 1
        records = {name: value.reshape((*value.shape[:lead], *value.shape[lead + 1 :])) for name, value in out.items()}
        found = (out.x, records) if record else (out.x,)
        if derivatives:
            found += self._jacobians(x, references, seed, robots, parameters, (backend, lanes, threads))
        return found if len(found) > 1 else out.x

    def _traced(
        self, x: Any, references: Any, seed: Any, robots: Any, parameters: Mapping[str, Any], record: tuple[str, ...]
    ) -> Any:
        """A tick inside of a trace."""
        given = references if isinstance(references, Mapping) else dict(zip(self.inputs, [references], strict=False))
        rows = {name: traced_array(name, given[name], shape) for name, shape in self.inputs.items()}
        tables = {name: parameters.get(name, w.default) for name, w in self.weights.items()}
        values = {name: value for name, value in parameters.items() if name not in tables}
        context = call_context(
            self,
            {
                **values,
                **{name: table(value) for name, value in tables.items()},
                "seed": traced_array("seed", halves("seed", seed), (2,)),
                "robot": traced_array("robots", halves("robots", 0 if robots is None else robots), (2,)),
            },
            tuple(values),
        )
        signals = {name: np.zeros(math.prod(self.plan.signals[name])) for name in record if name in self.plan.signals}
        end = context.checked_tick({"x": traced_array("x", x, (self.nx,)), "residual": 0.0, **signals}, rows)
        self._last.value = Status.of(end["residual"])
        if not record:
            return end["x"]
        shapes, parts = recordable(self, record), self.unpacked(end["x"])
        return end["x"], {name: (end[name] if name in end else parts[name]).reshape(shapes[name]) for name in record}

    def _jacobians(self, x: Any, references: Any, seed: int, robots: Any, parameters: Any, on: Any) -> tuple[Any, ...]:
        """(A, B) of a tick."""
        x, values = state_array(x, self.layout), self._values(parameters)

        def make() -> Function:
            return self._compiled(jacobian_kernel(self, tuple(values)), self._shapes(values) | self.inputs, on)

        function = made_once(self._functions, ("jacobians", tuple(values), on), make)
        arrays = {"x": x, **self._keys(x, seed, robots), **references_of(self.inputs, references)}
        found = function(**as_precise_as(x, {**arrays, **values, **self.tables(parameters)}))
        A, *Bs = found if isinstance(found, tuple) else (found,)
        if len(Bs) == 1:
            return A, Bs[0]
        return A, dict(zip(self.inputs, Bs, strict=True))

    def _one_state(
        self, x: Any, references: Any, seed: int, robots: Any, parameters: Mapping[str, Any], record: tuple[str, ...]
    ) -> Any:
        """The step of one robot by the fast call of the kernel; None for everything that needs a closer look."""
        quick = self._quick.get((record, tuple(parameters)) if record or parameters else None)
        if quick is None or type(x) is not np.ndarray or x.ndim != 1:
            return None
        fast, tables, clock, shape = quick
        try:
            if shape is not None and type(references) is np.ndarray:
                rows: tuple[Any, ...] = (references.reshape(shape),)
            else:
                given = references_of(self.inputs, references)
                rows = tuple([given[name].reshape(1, 1, size) for name, (size,) in self.inputs.items()]) or clock
            keys = self._known_keys.get((seed, robots))
        except (KeyError, ValueError, TypeError):
            return None
        if keys is None:
            keys = halves("seed", seed), halves("robots", 0 if robots is None else robots)
            if keys[1].ndim > 1:
                return None
            self._known_keys = {(seed, robots): keys}
        numbers = tables
        if parameters:
            known = self._checked.find(parameters)
            numbers = (*self._values(parameters).values(), *self.tables(parameters).values()) if known is None else known
            if known is None:
                self._checked.keep(parameters, numbers)
        found = fast((x, *keys, *rows, *numbers))
        if found is None or not found[1] <= LIMIT:
            return None
        self._last.value = Status(found[1], OK)
        if not record:
            return found[0]
        shapes = recordable(self, record)
        return found[0], {name: value.reshape(shapes[name]) for name, value in zip(record, found[2:], strict=True)}

    def _keep_fast_call(self, function: Function, key: Any) -> None:
        """None; the next step of one robot with these records and parameters is by the fast call, where there is one."""
        if key not in self._quick and (fast := function.fast_call()) is not None:
            tables, clock = tuple(self.tables(None).values()), () if self.inputs else (np.zeros((1, 1)),)
            shape = (1, 1, *next(iter(self.inputs.values()))) if len(self.inputs) == 1 else None
            self._quick[key] = (fast, tables, clock, shape)

    def rollout(
        self,
        x: Any,
        references: References = None,
        steps: int | None = None,
        *,
        seed: int = 0,
        robots: Any = None,
        parameters: Mapping[str, Any] | None = None,
        record: Sequence[str] = ("q", "v"),
        every: int = 1,
        freeze: bool = False,
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> Rollout:
        """`steps` ticks from the states x (..., nx), in one kernel: records of the names in `record` at every n-th tick.

        `references`: {name: (..., T, size)}, or the array alone if there is one; each of the T rows is held for steps / T ticks.
        (size,) is constant. `seed` and `robots` (whole numbers below 2^32, by default the positions in the batch) are the keys of
        all noise. `parameters`: {name: value}, one for all or one per robot. A robot that is not finite, or whose solver does not
        converge, is an error; with freeze=True it stays as it is and `status.ok` is False for it.
        """
        names, x = tuple(record), state_array(x, self.layout)
        count, schedule, rows = self.schedule(references, steps, every)
        shapes, values = recordable(self, names), self._values(parameters)
        function = self._function(names, schedule, values, (backend, lanes, threads))
        call = {"x": x, **self._keys(x, seed, robots), **values, **self.tables(parameters)}
        x1, residual, *written = function(**as_precise_as(x, call | rows))
        if count == 1 and backend == "cpu" and not on_device((x, x1)) and x.dtype == np.float64:
            self._keep_fast_call(function, (names, tuple(parameters or ())) if names or parameters else None)
        held = rows_of(references_of(self.inputs, references), steps, every)[1:]
        self._last.value = status = Status.of(
            residual, lambda places: find_failures(self, places, as_precise_as(x, call), *held, x1, residual)
        )
        if not freeze:
            self._require_ok(status, x)
        records = {
            name: found.reshape(*x1.shape[:-1], count // every, *shapes[name]) for name, found in zip(names, written, strict=True)
        }
        return Rollout(records, x1, status)

    def vjp(
        self,
        x: Any,
        references: References = None,
        steps: int | None = None,
        *,
        wrt: Sequence[str] | None = None,
        checkpoint: int = 1,
        seed: int = 0,
        robots: Any = None,
        parameters: Mapping[str, Any] | None = None,
        record: Sequence[str] = (),
        every: int = 1,
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> tuple[Rollout, Callable[..., dict[str, np.ndarray]]]:
        """(rollout, pullback): gradients of a rollout in reverse mode; pullback(x1=weights, q=weights, ...) = J^T weights.

        Weights are those of the final state x1 and of records by name, zero where they are not given. The gradients, by name, are
        by x, by all references, and by the parameters and shared arrays that are given, or by those named in `wrt`; each has the
        shape of what was given. States at every `checkpoint`-th row of references or records are kept in memory, and the ticks
        between are run again. A robot that stops stays as it is, and so do its gradients.
        """
        from condyle.closed_loop.adjoint import rollout_vjp

        on = (backend, lanes, threads)
        given = {"x": x, "references": references, "parameters": parameters or {}}
        return rollout_vjp(self, given, (steps, every, checkpoint), tuple(record), wrt, (seed, robots), on)

    def schedule(
        self, references: References, steps: int | None, every: int, checkpoint: int = 1
    ) -> tuple[int, Schedule, dict[str, Any]]:
        """(number of ticks, rates, the rows that a kernel scans) of a rollout."""
        given = references_of(self.inputs, references)
        every, group = whole_number("every", every, 1), whole_number("checkpoint", checkpoint, 1)
        count, rows, hold = rows_of(given, steps, every)
        if count % every or (every % hold and hold % every):
            raise ControlError(
                f"a rollout of {count} ticks with references held for {hold} ticks cannot be recorded every {every} ticks: "
                "steps must be a multiple of every, and one of every and the hold of the other"
            )
        schedule = Schedule(hold, every, group)
        number = count // schedule.period
        if number % group:
            raise ControlError(
                f"a rollout of {number} rows of {schedule.period} ticks cannot have checkpoints at every {group} rows"
            )
        inner = (max(every // hold, 1),) if every >= hold else ()
        grouped = (number // group, *([group] if group > 1 else []))
        arrays: dict[str, Any] = {
            name: value.reshape(*value.shape[:-2], *grouped, *inner, value.shape[-1]) for name, value in rows.items()
        }
        return count, schedule, arrays or {"clock": np.zeros((*grouped, 1))}

    def __repr__(self) -> str:
        robot = "no robot" if self.world is None else self.world.robot.name
        blocks = ", ".join(self.plan.blocks) or "no blocks"
        return f"<condyle loop of {robot}: {blocks}; nx {self.nx}, references {', '.join(self.inputs) or 'none'}>"

    # ---- inside

    def _function(self, record: Any, schedule: Schedule, parameters: Mapping[str, Any], on: Any) -> Function:
        """The compiled rollout for these records, rates and parameters."""

        def make() -> Function:
            inner = (max(schedule.every // schedule.hold, 1),) if schedule.every >= schedule.hold else ()
            group = (schedule.group,) if schedule.group > 1 else ()
            rows: dict[str, Any] = {name: Rows(None, *group, *inner, *shape) for name, shape in self.inputs.items()}
            shapes = self._shapes(parameters)
            tables = {name: shapes.pop(name) for name in list(shapes) if name not in ("x", "seed", "robot")}
            shapes |= (rows or {"clock": Rows(None, *group, 1)}) | tables
            kernel = rollout_kernel(self, record, schedule, tuple(parameters))
            return self._compiled(kernel, shapes, on)

        return made_once(self._functions, (record, schedule, tuple(parameters), on), make)

    def _law_residuals(self, parameters: tuple[str, ...]) -> Function:
        """The residuals of all laws in the steps of one tick."""

        def make() -> Function:
            shapes = self._shapes(dict.fromkeys(parameters)) | self.inputs
            return self._compiled(laws_kernel(self, parameters), shapes, ("cpu", None, None))

        return made_once(self._functions, ("laws", parameters), make)

    def _shapes(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The shapes of the inputs that every kernel has."""
        shapes: dict[str, Any] = {"x": self.nx, "seed": 2, "robot": 2}
        shapes |= {name: self.parameters[name].shape for name in parameters}
        return shapes | {name: Uniform(*w.shape) for name, w in self.weights.items()}

    def _compiled(self, kernel: Callable[..., Any], shapes: dict[str, Any], on: Any) -> Function:
        """A kernel on a backend; a tape with derivative rules is recorded when derivatives are asked for."""
        backend, lanes, threads = on
        if threads is None and self.world is not None:
            threads = self.world.threads
        differentiable = partial(traced_function, kernel, shapes)
        label = "the loop" if self.world is None else f"the loop of '{self.world.robot.name}'"
        with compiling(label):
            tape = traced_function(kernel, shapes, values_only=True)
        return Function(tape, backend, lanes=lanes, threads=threads, differentiable=differentiable, label=label)

    def _keys(self, x: np.ndarray, seed: Any, robots: Any) -> dict[str, np.ndarray]:
        """The keys of noise: the seed, and the number of each robot."""
        lead = tuple(x.shape[:-1])
        if on_device((x,)):
            return self._device_keys(x, lead, {"seed": seed, "robot": robots})
        numbers = np.arange(math.prod(lead)).reshape(lead) if robots is None else robots
        return {"seed": halves("seed", seed), "robot": halves("robots", numbers)}

    def _values(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """The parameters of a call, in a fixed order, checked; without shared arrays."""
        if not given:
            return {}
        numbers = {name: value for name, value in given.items() if name not in self.weights}
        found = self.parameters.checked(numbers, ControlError)
        return {name: found[name] for name in sorted(found)}

    @cached_property
    def weights(self) -> dict[str, Weights]:
        """The arrays of blocks and episodes that all robots share."""
        found = {w.name: w for block in self.plan.blocks.values() for w in block.tables.values()}
        return found if self.episode is None else found | {w.name: w for w in self.episode.tables.values()}

    def tables(self, given: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
        """The shared arrays of a call: those given, and the others as they were declared."""
        found = {}
        for name, w in self.weights.items():
            value = (given or {}).get(name, w.default)
            value = value if on_device((value,)) else np.asarray(value, dtype=float)
            if tuple(value.shape) != w.shape:
                raise ControlError(f"'{name}' has shape {w.shape}, shared by all robots; got {tuple(value.shape)}")
            found[name] = value
        return found

    def _require_ok(self, status: Status, x: np.ndarray) -> None:
        if on_device((status.residual,)) or np.all(status.ok):
            return
        first = tuple(np.argwhere(~status.ok)[0]) if status.ok.ndim else ()
        where = f" of robot {list(map(int, first))}" if first else ""
        if not np.all(np.isfinite(x[first])):
            raise ControlError(f"the state{where} is not finite; pass finite numbers, or freeze=True to leave it as it is")
        failure = status.first_failure
        finite = np.isfinite(failure.residual) or failure.law is not None
        reason, tick = f"the solver {failure.reason}" if finite else "a value is not finite", failure.step or 0
        raise ControlError(
            f"the loop{where} stops at tick {tick} (t = {tick * self.dt:.6g} s): {reason}; look at gains and dt "
            f"({self.dt} s), or pass freeze=True to leave such robots as they are"
        )
