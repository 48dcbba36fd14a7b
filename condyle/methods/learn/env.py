"""Environments for reinforcement learning: many robots in one kernel, with rewards, randomisation, resets and the policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from condyle.closed_loop.arguments import halves, whole_number
from condyle.closed_loop.block import Block
from condyle.closed_loop.episode import check_reset
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError, require_importable
from condyle.methods.learn.env_arrays import arrays_of, integers, on_host
from condyle.methods.learn.env_kernel import RESULTS, EnvPlan, Record, discovered, reset_kernel, rollout_kernel
from condyle.methods.learn.env_values import (
    RANDOMIZATION,
    SharedValues,
    check_loop,
    positive,
    randomized,
    seed_of,
    steps_of,
    variables_of,
)
from condyle.methods.learn.policy_kernel import PolicyPlan, policy_arrays, policy_block, policy_form
from condyle.methods.learn.rollouts import Rollouts as Rollouts
from condyle.methods.learn.rollouts import rollouts_of
from condyle.robot.names import nearest
from condyle.tape.function import Function
from condyle.tape.progress import compiling
from condyle.tape.trace import Rows, Uniform
from condyle.tape.trace_cache import traced_function


class RecentValues:
    """The compiled functions of an environment by key, the ones used last: a function given anew to each call adds no memory."""

    LIMIT = 32

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def find(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value of a key, made now if it is not kept."""
        value = self._values.pop(key, None)
        if value is None:
            value = make()
        self._values[key] = value
        while len(self._values) > self.LIMIT:
            oldest, *_ = [*self._values]
            self._values.pop(oldest, None)  # another thread may have removed it
        return value


@dataclass(frozen=True)
class Memory:
    """What a policy remembers of all robots: (num_envs, size) values of the policy's form."""

    key: Any
    plan: PolicyPlan
    values: Any


class VectorEnv:
    """Many robots that learn: `num_envs` copies of a closed loop, one policy step of all of them in one kernel.

        env = cd.VectorEnv(loop, observe, reward, terminate, reset, num_envs=1024, every=5, time_limit=20.0)

    The action is a reference of the loop, by the name `action`; other references are `variables` of the same name. It is held for
    `every` ticks; then come rewards, the ends of episodes, and observations, with each robot starting again by itself. Functions:

    observe(s), privileged(s) -> vectors; reward(s) -> a number, or {name: number}, which are added; terminate(s) -> a comparison;
    reset(draw) -> {"q": ..., states of blocks, variables} where they differ from their initial values; update(s, draw) ->
    {variable: value} after every policy step; curriculum(draw) -> {variable: value} when an episode ends, kept through the reset.
    s is a `Step`: s.x, s.action, s.previous_action, s.t, s["imu.rate"], s.before.

    `time_limit` in s. `randomize`: {parameter: (low, high) or function(draw)}, drawn for every episode. `variables`: {name: size
    or initial value}, numbers of each robot. `shared`: {name: value}, numbers of all. `clip`: bound of the actions. `device`:
    None for NumPy arrays; "cuda" or "cuda:1" for tensors of PyTorch on a GPU, where everything stays and nothing waits; "cpu" for
    tensors on the processor.
    """

    def __init__(
        self,
        loop: Loop,
        observe: Callable[[Any], Any],
        reward: Callable[[Any], Any],
        terminate: Callable[[Any], Any] | None = None,
        reset: Callable[[Any], Mapping[str, Any]] | None = None,
        *,
        num_envs: int,
        action: str = "action",
        every: int = 1,
        time_limit: float | None = None,
        privileged: Callable[[Any], Any] | None = None,
        randomize: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        update: Callable[[Any, Any], Mapping[str, Any]] | None = None,
        curriculum: Callable[[Any], Mapping[str, Any]] | None = None,
        shared: Mapping[str, Any] | None = None,
        clip: float | None = None,
        seed: int = 0,
        dtype: Any = np.float32,
        device: str | None = None,
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> None:
        check_loop(loop, action)
        functions: dict[str, Any] = {"observe": observe, "reward": reward, "terminate": terminate, "reset": reset}
        functions |= {"privileged": privileged, "update": update, "curriculum": curriculum}
        for name, function in functions.items():
            if not callable(function) and (function is not None or name in ("observe", "reward")):
                raise ControlError(f"VectorEnv: {name} must be a function, got {type(function).__name__}")
        self.loop, self.num_envs = loop, whole_number("num_envs", num_envs, 1)
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ControlError(f"VectorEnv: dtype is float32 or float64, not {self.dtype}")
        self._arrays = arrays_of(self.dtype, device)
        every = whole_number("every", every, 1)
        self.shared = SharedValues({RANDOMIZATION: 1.0, **(shared or {})})
        self.dt = loop.dt * every
        drawn = randomized(loop, randomize)
        plan = EnvPlan(
            loop,
            **functions,
            action=action,
            every=every,
            limit=steps_of(time_limit, self.dt),
            clip=None if clip is None else positive("clip", clip),
            randomized=drawn,
            variables=variables_of(loop, variables, action, (*drawn, *self.shared)),
            shared={name: np.shape(value) for name, value in self.shared.items()},
        )
        self._on = (backend, lanes, threads)
        self._shared: tuple[Any, Any] = (None, None)  # the table of shared values, and where the kernel reads it
        self.plan, _ = discovered(plan)
        self.kernels = RecentValues()
        self._memory: Memory | None = None
        self.seed = seed_of(seed)
        self._lock = Lock()
        self._state = self._blank()
        self._begin(None, self._state)

    def __getstate__(self) -> dict[str, Any]:
        """All but the compiled functions, which come again from the cache."""
        plan = self.plan
        functions = [plan.observe, plan.reward, plan.terminate, plan.reset, plan.privileged, plan.update, plan.curriculum]
        require_importable("the environment", *functions, *[drawn.function for drawn in plan.randomized.values()])
        return {name: value for name, value in self.__dict__.items() if name not in ("kernels", "_lock")} | {"_state": self.state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, kernels=RecentValues(), _lock=Lock())

    # ---- sizes

    @property
    def device(self) -> str | None:
        """Where the tensors are: "cpu", "cuda:0"; None if the arrays are those of NumPy."""
        return self._arrays.device

    @property
    def observation_size(self) -> int:
        """Entries of an observation."""
        return self.plan.observations

    @property
    def privileged_size(self) -> int:
        """Entries of a privileged observation; 0 if there are none."""
        return self.plan.privileged_size

    @property
    def action_size(self) -> int:
        """Entries of an action."""
        return self.plan.actions

    @property
    def reward_names(self) -> tuple[str, ...]:
        """The terms of the reward."""
        return self.plan.terms

    @property
    def max_episode_steps(self) -> int | None:
        """Policy steps until an episode is truncated."""
        return self.plan.limit

    # ---- state

    @property
    def state(self) -> Any:
        """Everything about the robots, (num_envs, size): a copy; `restore` continues from it with the same bits."""
        return self._arrays.copied(self._state)

    def restore(self, state: Any) -> None:
        """Continue from a state that `env.state` gave, on any device."""
        given, shape = np.asarray(on_host(state)), tuple(self._state.shape)
        if given.shape != shape or given.dtype != self.dtype:
            raise ControlError(
                f"the state of this environment is {self.dtype} of shape {shape}; got {given.dtype} of {given.shape}"
            )
        if not np.all(np.isfinite(given)):
            raise ControlError("a state of an environment must be finite")
        self._state, self._memory = self._arrays.rows(given), None

    @property
    def memory(self) -> Any:
        """What the last policy with states remembers of each robot, (num_envs, size): a copy; None before it acted."""
        return None if self._memory is None else self._arrays.copied(self._memory.values)

    def remember(self, policy: Any, memory: Any) -> None:
        """Continue with what `env.memory` gave for a policy of this form, after `restore`."""
        key, plan = policy_form(policy_block(policy))
        given = np.asarray(on_host(memory))
        if given.shape != (self.num_envs, plan.memory_size) or not np.all(np.isfinite(given)):
            raise ControlError(
                f"this policy remembers {plan.memory_size} finite numbers of each of {self.num_envs} robots, got {given.shape}"
            )
        self._memory = Memory(key, plan, self._arrays.rows(given))

    def __getitem__(self, name: str) -> Any:
        """A part of the state of all robots by name: "q", states of blocks, randomised parameters, variables, "episode.step"."""
        layout = self.plan.layout
        if name not in layout:
            raise ControlError(f"the environment has no state '{name!s:.60}'{nearest(name, list(layout))}")
        place, shape = layout[name]
        return self._state[:, place].reshape(self.num_envs, *shape)

    def set(self, name: str, value: Any) -> None:
        """Change a part of the state of all robots, such as a parameter or a command; observations follow with the next step."""
        given = self._arrays.values(f"'{name}'", value, tuple(self[name].shape))
        if name == "q" and self.loop.world is not None:
            check_reset(self.loop.world.robot.reduced, on_host(given))
        if name in self.plan.randomized:
            self.loop.parameters.checked({name: on_host(given)}, ControlError)
        place, _ = self.plan.layout[name]
        before = self._state
        before[:, place] = given.reshape(self.num_envs, -1)
        self._go_on(before, before[:], self._memory)  # another object, so that a step that began before it is dropped

    @property
    def observations(self) -> Any:
        """The present observations, (num_envs, observation_size)."""
        return self._arrays.copied(self["observation"])

    @property
    def privileged_observations(self) -> Any:
        """The present privileged observations; None if there are none."""
        return self._arrays.copied(self["privileged"]) if self.privileged_size else None

    # ---- in time

    def reset(self, seed: int | None = None, *, mask: Any = None) -> tuple[Any, dict[str, Any]]:
        """(observations, infos) of new episodes; with a seed all random numbers begin again, too.

        `mask`: (num_envs,) true for the robots that begin; all by default.
        """
        start = self._state
        if seed is not None:
            self.seed = seed_of(seed)
            chosen = self._arrays.mask(mask, self.num_envs)
            start = self._arrays.rows(self._arrays.where(chosen[:, None], self._blank(), start))
        self._begin(mask, start)
        return self.observations, self._infos()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """(observations, rewards, terminated, truncated, infos) after one policy step of all robots.

        A robot whose episode ends begins the next one in the same step: its observation is the first of the new episode, and
        infos["final_obs"] is the last one of the old one (equal to the observation for all other robots).
        """
        given = self._arrays.actions(actions, (self.num_envs, self.action_size))
        found = self._run(None, None, given[:, None, :], (), True)
        terminated, truncated = found["terminated"][:, 0] > 0.5, found["truncated"][:, 0] > 0.5
        infos: dict[str, Any] = {"privileged": found["last_privileged"]} if self.privileged_size else {}
        infos |= {
            "final_obs": found["final_observation"][:, 0],
            "final_privileged": found["final_privileged"][:, 0] if self.privileged_size else None,
            "reward_terms": {name: found["terms"][:, 0, k] for k, name in enumerate(self.reward_names)},
            "failed": found["failed"][:, 0] > 0.5,
            "episode_returns": found["episode_return"][:, 0],
            "episode_lengths": integers(found["episode_length"][:, 0]),
        }
        return found["last_observation"], found["reward"][:, 0], terminated, truncated, infos

    def rollout(
        self,
        policy: Any,
        steps: int | None = None,
        *,
        std: Any = None,
        deterministic: bool = False,
        record: Sequence[str] | Mapping[str, Callable[[Any], Any] | None] = (),
        final: bool = False,
    ) -> Rollouts:
        """`steps` policy steps of all robots, with the policy and its noise in the kernel, from where the environment is.

        `policy`: a Policy, a block such as cd.blocks.MLP, a policy whose weights are tensors (`kernel_arrays()`: arrays of the
        kernel by name), or actions (num_envs, steps, action_size). `std`: standard deviation of the noise, exp(policy.log_std) by
        default if it has one; none with deterministic=True. `record`: names of states, signals, parameters and variables, or
        {name: function(s)}. `final`: observations before resets, too.
        """
        records: Record = tuple(record.items()) if isinstance(record, Mapping) else tuple((name, None) for name in record)
        for name, function in records:
            if not isinstance(name, str) or not (function is None or callable(function)):
                raise ControlError(f"record is a list of names, or a dict {{name: function}}, got {name!r:.40}: {function!r:.40}")
        own, double = self._arrays, self._arrays.double
        if own.is_array(policy):
            given = own.actions(policy, (self.num_envs, policy.shape[1] if policy.ndim == 3 else 1, self.action_size))
            found = self._run(None, None, given, records, final)
            terms = found["terms"].mean(axis=(0, 1), dtype=double)
        else:
            count = whole_number("steps", steps, 1)
            block = policy_block(policy)
            arrays = self._policy_arrays(policy, block, std, deterministic)
            found = self._run(block, arrays, self._clock(count), records, final)
            terms = found["term_sums"].sum(axis=0, dtype=double) / (self.num_envs * count)
        actions = found["actions"] if "means" in found else given
        recorded = {name: found[f"record {name}"] for name, _ in records}
        return rollouts_of(found, self.reward_names, terms, actions, recorded)

    def without_randomization(self) -> VectorEnv:
        """The environment with the default of every parameter, from its next reset on; the same object, which is given back."""
        self.shared[RANDOMIZATION] = 0.0
        return self

    def with_parameters(self, values: Mapping[str, Any]) -> VectorEnv:
        """A new environment whose robots all have these parameters of the loop, in place of random or default ones."""
        made = copy(self)
        fixed = randomized(self.loop, {name: (value, value) for name, value in values.items()})
        fixed = {name: replace(each, default=np.array(each.low)) for name, each in fixed.items()}
        made.plan = replace(self.plan, randomized={**self.plan.randomized, **fixed})
        made.shared = SharedValues(dict(self.shared))
        made._memory = None
        made._state = made._blank()
        made._begin(None, made._state)
        return made

    @property
    def smooth_parameters(self) -> dict[str, float]:
        """Parameters of the loop's blocks with which gradients pass them: a dead band of 0, ... (`Block.smooth`)."""
        blocks = self.loop.plan.blocks.values()
        return {f"{block.name}.{name}": value for block in blocks for name, value in block.smooth.items()}

    def __repr__(self) -> str:
        robot = "no robot" if self.loop.world is None else self.loop.world.robot.name
        return (
            f"<condyle environment of {self.num_envs} x {robot}: {self.observation_size} observations, {self.action_size} "
            f"actions, {1.0 / self.dt:.6g} Hz>"
        )

    # ---- for other libraries

    def gymnasium(self) -> Any:
        """The environment as a gymnasium.vector.VectorEnv (extra `learn`)."""
        from condyle.methods.learn.gymnasium import gymnasium_env

        return gymnasium_env(self)

    def rsl_rl(self, cfg: Any = None) -> Any:
        """The environment as rsl-rl's VecEnv, with its own tensors, or ones that share memory with its arrays (extra `learn`)."""
        from condyle.methods.learn.rsl_rl import rsl_rl_env

        return rsl_rl_env(self, cfg)

    def stable_baselines(self) -> Any:
        """Raise a ControlError that names the example which has this interface now."""
        raise ControlError("env.stable_baselines() is an example now: examples/27_train_with_stable_baselines.py has the VecEnv")

    # ---- inside

    def _blank(self) -> Any:
        """Rows with keys and nothing else, before their first reset."""
        rows = np.zeros((self.num_envs, self.plan.size), self.dtype)
        layout = self.plan.layout
        for parts in (self.loop.initial, self.plan.variables, {n: r.default for n, r in self.plan.randomized.items()}):
            for name, value in parts.items():
                rows[:, layout[name][0]] = np.ravel(value)
        rows[:, layout["seed"][0]] = halves("seed", self.seed)
        rows[:, layout["robot"][0]] = halves("robot", np.arange(self.num_envs))
        rows[:, layout["step"][0]] = -1.0
        return self._arrays.rows(rows)

    def _go_on(self, before: Any, state: Any, memory: Memory | None) -> None:
        """Go on from this state, unless it is no longer `before`, from which it was computed."""
        with self._lock:
            if self._state is before:
                self._state, self._memory = state, memory
                return
        raise ControlError(
            "the environment was changed, by another thread or a signal handler, while it computed this call, which is dropped: "
            "it has one state, so give each thread its own environment (copy.deepcopy), or let them take turns"
        )

    def _begin(self, mask: Any, start: Any) -> None:
        """Begin episodes of the robots of the mask, all of them for None, from rows with their keys."""
        before, chosen = self._state, self._arrays.mask(mask, self.num_envs)
        shapes = {"row": self.plan.size, "mask": (), **self._tables}
        kernel = self.kernels.find("reset", lambda: self._compiled(reset_kernel(self.plan), shapes))
        given = {"row": start, "mask": self._arrays.moved(chosen), **self.arrays()}
        memory = None if self._memory is None else self._forgotten(self._memory, chosen)
        self._go_on(before, self._arrays.call(kernel, given)[0], memory)
        if self.device is not None and mask is not None:
            return  # looking at the states of some robots would wait for them
        state = on_host(self._state)
        if not np.all(np.isfinite(state)):
            first = int(np.argwhere(~np.all(np.isfinite(state), axis=1))[0, 0])
            name = next(n for n, (place, _) in self.plan.layout.items() if not np.all(np.isfinite(state[first, place])))
            raise ControlError(f"a reset gives robot {first} a '{name}' that is not finite; look at reset, randomize and observe")
        if self.loop.world is not None:
            check_reset(self.loop.world.robot.reduced, state[on_host(chosen), self.plan.layout["q"][0]])

    def _forgotten(self, memory: Memory, mask: Any) -> Memory:
        """What the policy remembers, without that of robots that begin again."""
        values = self._arrays.where(mask[:, None], memory.plan.start.astype(self.dtype), memory.values)
        return replace(memory, values=self._arrays.rows(values))

    def _policy_arrays(self, policy: Any, block: Block, std: Any, deterministic: bool) -> dict[str, Any]:
        """The arrays of a policy for a call, where the kernel runs."""
        found: dict[str, Any] = getattr(policy, "kernel_arrays", dict)()
        if not found and std is None and getattr(policy, "log_std", None) is not None:
            std = np.exp(np.asarray(policy.log_std, dtype=float))
        if not found or std is not None or deterministic:
            made = policy_arrays(block, None if deterministic else std, self.action_size, self.dtype)
            found = {**made, **found, "policy:std": made["policy:std"]}
        return {name: self._arrays.moved(value) for name, value in found.items()}

    def _clock(self, steps: int) -> Any:
        """Rows of a rollout that has a policy: nothing but their number."""
        return self.kernels.find(("clock", steps), lambda: self._arrays.moved(np.zeros((steps, 1))))

    def _run(self, policy: Block | None, weights: Any, rows: Any, record: Record, final: bool) -> dict[str, Any]:
        """The outputs of a rollout by name; the state becomes that after it."""
        key, form = (None, None) if policy is None else policy_form(policy)

        def compiled() -> tuple[Function, PolicyPlan | None, dict[str, tuple[int, ...]]]:
            plan, shapes = discovered(self.plan, record) if record else (self.plan, {})
            kernel = rollout_kernel(self.plan, form, record, plan.signals, final)
            return self._compiled(kernel, self.shapes(form)), form, shapes

        # the form is kept with its kernel, so that the key of a block belongs to no other block
        kernel, plan, shapes = self.kernels.find((key, record, final), compiled)
        before, memory = self._state, self._memory
        arrays = {"row": before, "rows": rows, **self.arrays()}
        if plan is not None:
            arrays |= weights
            if plan.states:
                arrays["memory"] = self._remembered(key, plan)
        outputs = self._arrays.call(kernel, arrays)
        found = dict(zip([p.name for p in kernel.tape.outputs], outputs, strict=True))
        if "memory" in arrays:
            found["first_memory"] = arrays["memory"]
        if plan is not None and "memory" in found:
            memory = Memory(key, plan, found["memory"])
        self._go_on(before, found["row"], memory)
        results = found.pop("results")
        found |= dict(zip(RESULTS, self._arrays.columns(results[..., : len(RESULTS)]), strict=True))
        if policy is None:
            found["terms"] = results[..., len(RESULTS) :]
        for name, shape in shapes.items():
            found[f"record {name}"] = found[f"record {name}"].reshape(*found["reward"].shape, *shape)
        return found

    def _remembered(self, key: Any, plan: PolicyPlan) -> Any:
        if self._memory is not None and self._memory.key == key:
            return self._memory.values
        return self._arrays.rows(np.repeat(plan.start[None].astype(self.dtype), self.num_envs, axis=0))

    @cached_property
    def _tables(self) -> dict[str, Any]:
        count = sum(math.prod(shape) for shape in self.plan.shared.values())
        return {"shared": Uniform(count), **{name: Uniform(*w.shape) for name, w in self.loop.weights.items()}}

    def arrays(self) -> dict[str, Any]:
        """What all robots share, as a kernel takes it."""
        table = self.shared.table(self.dtype)
        if self._shared[0] is not table:
            self._shared = (table, self._arrays.moved(table))
        return {"shared": self._shared[1], **self._loop_tables}

    @cached_property
    def _loop_tables(self) -> dict[str, Any]:
        return {name: self._arrays.moved(value) for name, value in self.loop.tables().items()}

    def _compiled(self, kernel: Callable[..., Any], shapes: dict[str, Any]) -> Function:
        backend, lanes, threads = self._on
        label = f"the environment of '{'no robot' if self.loop.world is None else self.loop.world.robot.name}'"
        with compiling(label):
            tape = traced_function(kernel, shapes, values_only=True)
        return Function(tape, backend, lanes=lanes, threads=threads, label=label)

    def shapes(self, plan: PolicyPlan | None) -> dict[str, Any]:
        """The inputs of the kernel of a rollout."""
        found: dict[str, Any] = {"row": self.plan.size, "rows": Rows(None, self.action_size if plan is None else 1)}
        return found | {**({} if plan is None else plan.shapes(self.action_size)), **self._tables}

    def _infos(self) -> dict[str, Any]:
        return {} if not self.privileged_size else {"privileged": self.privileged_observations}
