"""Environments for reinforcement learning: many robots in one kernel, with rewards, randomisation, resets and the policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from condyle.closed_loop.arguments import halves, whole_number
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.learn.env_arguments import actions_of, check_loop, finite, mask_of, positive, seed_of, steps_of, variables_of
from condyle.learn.env_kernel import RESULTS, EnvPlan, Record, discovered, record_shapes, reset_kernel, rollout_kernel
from condyle.learn.env_step import RANDOMIZATION
from condyle.learn.policy_kernel import PolicyPlan, policy_arrays, policy_block, policy_form
from condyle.learn.randomize import randomized
from condyle.learn.rollouts import Rollouts as Rollouts
from condyle.learn.rollouts import rollouts_of
from condyle.robot.names import nearest
from condyle.tape.function import Function
from condyle.tape.progress import compiling
from condyle.tape.trace import Rows, Uniform
from condyle.tape.trace_cache import traced_function


class SharedValues(MutableMapping[str, Any]):
    """Numbers that all robots share, by name; they may change between calls, and nothing compiles again."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: finite(f"shared value '{name}'", value) for name, value in values.items()}
        self._table: np.ndarray | None = None

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        return float(value) if value.ndim == 0 else value.copy()

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._values:
            raise ControlError(f"the environment has no shared value '{name!s:.60}'{nearest(name, list(self._values))}")
        given, shape = finite(f"shared value '{name}'", value), self._values[name].shape
        if given.shape != shape:
            raise ControlError(f"shared value '{name}' has shape {shape}, got {given.shape}")
        self._values[name], self._table = given, None

    def __delitem__(self, name: str) -> None:
        raise ControlError(f"shared value '{name}' cannot be removed")

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def table(self, dtype: Any) -> np.ndarray:
        """All of them in one vector."""
        if self._table is None:
            self._table = np.concatenate([value.ravel() for value in self._values.values()]).astype(dtype)
        return self._table


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
    or initial value}, numbers of each robot. `shared`: {name: value}, numbers of all. `clip`: bound of the actions.
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
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> None:
        check_loop(loop, action)
        functions = {"observe": observe, "reward": reward, "terminate": terminate, "reset": reset}
        for name, function in (functions | {"privileged": privileged, "update": update, "curriculum": curriculum}).items():
            if not callable(function) and (function is not None or name in ("observe", "reward")):
                raise ControlError(f"VectorEnv: {name} must be a function, got {type(function).__name__}")
        self.loop, self.num_envs = loop, whole_number("num_envs", num_envs, 1)
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ControlError(f"VectorEnv: dtype is float32 or float64, not {self.dtype}")
        every = whole_number("every", every, 1)
        self.shared = SharedValues({RANDOMIZATION: 1.0, **(shared or {})})
        self.dt = loop.dt * every
        drawn = randomized(loop, randomize)
        plan = EnvPlan(
            loop,
            observe,
            reward,
            terminate,
            reset,
            privileged,
            update,
            curriculum,
            action,
            every,
            steps_of(time_limit, self.dt),
            None if clip is None else positive("clip", clip),
            drawn,
            variables_of(loop, variables, action, (*drawn, *self.shared)),
            {name: np.shape(value) for name, value in self.shared.items()},
        )
        self._on = (backend, lanes, threads)
        self.plan = discovered(plan)
        self._functions: dict[Any, Any] = {}
        self._memory: tuple[Any, np.ndarray | None] = (None, None)
        self.seed = seed_of(seed)
        self._state = self._blank()
        self._begin(np.ones(self.num_envs, bool))

    # ---- sizes

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
    def state(self) -> np.ndarray:
        """Everything about the robots, (num_envs, size): a copy; `restore` continues from it with the same bits."""
        return self._state.copy()

    def restore(self, state: Any) -> None:
        """Continue from a state that `env.state` gave."""
        given = np.asarray(state)
        if given.shape != self._state.shape or given.dtype != self.dtype:
            raise ControlError(
                f"the state of this environment is {self.dtype} of shape {self._state.shape}; got {given.dtype} of {given.shape}"
            )
        if not np.all(np.isfinite(given)):
            raise ControlError("a state of an environment must be finite")
        self._state = given.copy()
        self._memory = (None, None)

    @property
    def memory(self) -> np.ndarray | None:
        """What the last policy with states remembers of each robot, (num_envs, size): a copy; None before it acted."""
        return None if self._memory[1] is None else self._memory[1].copy()

    def remember(self, policy: Any, memory: Any) -> None:
        """Continue with what `env.memory` gave for a policy of this form, after `restore`."""
        key, plan = policy_form(policy_block(policy))
        given = np.asarray(memory)
        if given.shape != (self.num_envs, plan.memory_size) or not np.all(np.isfinite(given)):
            raise ControlError(
                f"this policy remembers {plan.memory_size} finite numbers of each of {self.num_envs} robots, got {given.shape}"
            )
        self._functions[key, "policy"] = plan
        self._memory = (key, given.astype(self.dtype))

    def __getitem__(self, name: str) -> np.ndarray:
        """A part of the state of all robots by name: "q", states of blocks, randomised parameters, variables, "episode.step"."""
        layout = self.plan.layout
        if name not in layout:
            raise ControlError(f"the environment has no state '{name!s:.60}'{nearest(name, list(layout))}")
        place, shape = layout[name]
        return self._state[:, place].reshape(self.num_envs, *shape)

    def set(self, name: str, value: Any) -> None:
        """Change a part of the state of all robots, such as a parameter or a command; observations follow with the next step."""
        target = self[name]
        given = finite(f"'{name}'", value)
        try:
            given = np.broadcast_to(given, target.shape)
        except ValueError:
            raise ControlError(f"'{name}' of {self.num_envs} robots has shape {target.shape}, got {given.shape}") from None
        if name in self.plan.randomized:
            self.loop.parameters.checked({name: given}, ControlError)
        place, _ = self.plan.layout[name]
        self._state[:, place] = given.reshape(self.num_envs, -1)

    @property
    def observations(self) -> np.ndarray:
        """The present observations, (num_envs, observation_size)."""
        return self["observation"].copy()

    @property
    def privileged_observations(self) -> np.ndarray | None:
        """The present privileged observations; None if there are none."""
        return self["privileged"].copy() if self.privileged_size else None

    # ---- in time

    def reset(self, seed: int | None = None, *, mask: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """(observations, infos) of new episodes; with a seed all random numbers begin again, too.

        `mask`: (num_envs,) true for the robots that begin; all by default.
        """
        if seed is not None:
            self.seed = seed_of(seed)
            chosen = mask_of(mask, self.num_envs)
            self._state[chosen] = self._blank()[chosen]
        self._begin(mask_of(mask, self.num_envs))
        return self.observations, self._infos()

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """(observations, rewards, terminated, truncated, infos) after one policy step of all robots.

        A robot whose episode ends begins the next one in the same step: its observation is the first of the new episode, and
        infos["final_obs"] is the last one of the old one (equal to the observation for all other robots).
        """
        given = self._actions(actions, (self.num_envs, self.action_size))
        found = self._run(None, given[:, None, :], (), True)
        terminated, truncated = found["terminated"][:, 0] > 0.5, found["truncated"][:, 0] > 0.5
        infos: dict[str, Any] = {"privileged": found["last_privileged"]} if self.privileged_size else {}
        infos |= {
            "final_obs": found["final_observation"][:, 0],
            "final_privileged": found["final_privileged"][:, 0] if self.privileged_size else None,
            "reward_terms": {name: found["terms"][:, 0, k] for k, name in enumerate(self.reward_names)},
            "failed": found["failed"][:, 0] > 0.5,
            "episode_returns": found["episode_return"][:, 0],
            "episode_lengths": found["episode_length"][:, 0].astype(np.int64),
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

        `policy`: a Policy, a block such as cd.blocks.MLP, or actions (num_envs, steps, action_size). `std`: standard deviation of
        the noise, exp(policy.log_std) by default if it has one; none with deterministic=True. `record`: names of states, signals,
        parameters and variables, or {name: function(s)}. `final`: observations before resets, too.
        """
        records: Record = tuple(record.items()) if isinstance(record, Mapping) else tuple((name, None) for name in record)
        for name, function in records:
            if not isinstance(name, str) or not (function is None or callable(function)):
                raise ControlError(f"record is a list of names, or a dict {{name: function}}, got {name!r:.40}: {function!r:.40}")
        if isinstance(policy, np.ndarray):
            given = self._actions(policy, (self.num_envs, policy.shape[1] if policy.ndim == 3 else 1, self.action_size))
            found = self._run(None, given, records, final)
            terms = found["terms"].mean(axis=(0, 1), dtype=float)
        else:
            count = whole_number("steps", steps, 1)
            if std is None and not deterministic:
                log_std = getattr(policy, "log_std", None)
                std = None if log_std is None else np.exp(np.asarray(log_std, dtype=float))
            block = policy_block(policy)
            found = self._run((block, None if deterministic else std), np.zeros((count, 1), self.dtype), records, final)
            terms = found["term_sums"].sum(axis=0, dtype=float) / (self.num_envs * count)
        shapes = self._record(records)[0]
        lead, means = found["reward"].shape, found.get("means")
        recorded = {name: found[f"record {name}"].reshape(*lead, *shapes[name]) for name, _ in records}
        return rollouts_of(found, self.reward_names, terms, given if means is None else found["actions"], recorded)

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
        made._functions, made._memory = {}, (None, None)
        made._state = made._blank()
        made._begin(np.ones(self.num_envs, bool))
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
        from condyle.learn.gymnasium import gymnasium_env

        return gymnasium_env(self)

    def rsl_rl(self, cfg: Any = None) -> Any:
        """The environment as rsl-rl's VecEnv, with torch tensors that share memory (extra `learn`)."""
        from condyle.learn.rsl_rl import rsl_rl_env

        return rsl_rl_env(self, cfg)

    def stable_baselines(self) -> Any:
        """The environment as a VecEnv of Stable-Baselines3 (extra `learn`)."""
        from condyle.learn.stable_baselines import stable_baselines_env

        return stable_baselines_env(self)

    # ---- inside

    def _blank(self) -> np.ndarray:
        """Rows with keys and nothing else, before their first reset."""
        rows = np.zeros((self.num_envs, self.plan.size), self.dtype)
        layout = self.plan.layout
        for parts in (self.loop.initial, self.plan.variables, {n: r.default for n, r in self.plan.randomized.items()}):
            for name, value in parts.items():
                rows[:, layout[name][0]] = np.ravel(value)
        rows[:, layout["seed"][0]] = halves("seed", self.seed)
        rows[:, layout["robot"][0]] = halves("robot", np.arange(self.num_envs))
        rows[:, layout["step"][0]] = -1.0
        return rows

    def _begin(self, mask: np.ndarray) -> None:
        if "reset" not in self._functions:
            self._functions["reset"] = self._compiled(
                reset_kernel(self.plan), {"row": self.plan.size, "mask": (), **self._tables}
            )
        self._state = self._functions["reset"](row=self._state, mask=mask.astype(self.dtype), **self.arrays())
        self._memory = (None, None) if self._memory[1] is None else self._forgotten(mask)
        if not np.all(np.isfinite(self._state)):
            first = int(np.argwhere(~np.all(np.isfinite(self._state), axis=1))[0, 0])
            name = next(n for n, (place, _) in self.plan.layout.items() if not np.all(np.isfinite(self._state[first, place])))
            raise ControlError(f"a reset gives robot {first} a '{name}' that is not finite; look at reset, randomize and observe")

    def _forgotten(self, mask: np.ndarray) -> tuple[Any, np.ndarray | None]:
        """What the policy remembers, without that of robots that begin again."""
        key, memory = self._memory
        assert memory is not None
        plan: PolicyPlan = self._functions[key, "policy"]
        start = np.concatenate([value.ravel() for value in plan.states.values()]).astype(self.dtype)
        return key, np.where(mask[:, None], start, memory)

    def _run(self, policy: tuple[Any, Any] | None, rows: np.ndarray, record: Record, final: bool) -> dict[str, np.ndarray]:
        """The outputs of a rollout by name; the state becomes that after it."""
        key, plan = (None, None) if policy is None else policy_form(policy[0])
        place = (key, record, final)
        if place not in self._functions:
            _, signals = self._record(record)
            kernel = rollout_kernel(self.plan, plan, record, signals, final)
            self._functions[place] = self._compiled(kernel, self.shapes(plan))
            self._functions[key, "policy"] = plan
        arrays = {"row": self._state, "rows": rows, **self.arrays()}
        if policy is not None:
            plan = self._functions[key, "policy"]
            arrays |= policy_arrays(policy[0], policy[1], self.action_size, self.dtype)
            if plan.states:
                arrays["memory"] = self._remembered(key, plan)
        outputs = self._functions[place](**arrays)
        found = dict(zip([p.name for p in self._functions[place].tape.outputs], outputs, strict=True))
        if "memory" in arrays:
            found["first_memory"] = arrays["memory"]
        self._state = found["row"]
        if "memory" in found:
            self._memory = (key, found["memory"])
        results = found.pop("results")
        found |= {name: np.ascontiguousarray(results[..., k]) for k, name in enumerate(RESULTS)}
        if policy is None:
            found["terms"] = results[..., len(RESULTS) :]
        return found

    def _remembered(self, key: Any, plan: PolicyPlan) -> np.ndarray:
        known, memory = self._memory
        if known == key and memory is not None:
            return memory
        start = np.concatenate([value.ravel() for value in plan.states.values()])
        return np.repeat(start[None].astype(self.dtype), self.num_envs, axis=0)

    def _record(self, record: Record) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
        """(shapes of the records, all signals that a kernel with them needs)."""
        if not record:
            return {}, self.plan.signals
        if ("record", record) not in self._functions:
            self._functions["record", record] = record_shapes(self.plan, record)
        return self._functions["record", record]  # type: ignore[no-any-return]

    @cached_property
    def _tables(self) -> dict[str, Any]:
        count = sum(math.prod(shape) for shape in self.plan.shared.values())
        return {"shared": Uniform(count), **{name: Uniform(*w.shape) for name, w in self.loop.weights.items()}}

    def arrays(self) -> dict[str, np.ndarray]:
        """What all robots share, as a kernel takes it."""
        return {"shared": self.shared.table(self.dtype), **self._loop_tables}

    @cached_property
    def _loop_tables(self) -> dict[str, np.ndarray]:
        return {name: value.astype(self.dtype) for name, value in self.loop.tables().items()}

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

    def _actions(self, actions: Any, shape: tuple[int, ...]) -> np.ndarray:
        return actions_of(actions, shape, self.dtype)

    def _infos(self) -> dict[str, Any]:
        return {} if not self.privileged_size else {"privileged": self.privileged_observations}
