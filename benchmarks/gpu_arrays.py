"""Calls with arrays that lie on a GPU, of PyTorch, CuPy and JAX: the bits of NumPy arrays there, no waiting, milliseconds a call.

In PyTorch it is an error if something waits for the GPU. `python -m benchmarks.gpu_arrays` needs no LLVM and no Rich.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import condyle as cd
from benchmarks.gpu_bits import require_gpu
from condyle.errors import CondyleError

if TYPE_CHECKING:
    from rich.console import Console

STATES, SMALL, REPEATS, TICKS = 4096, 64, 20, 50

Results = tuple[Any, ...]
Call = Callable[[Callable[[Any], Any], dict[str, Any]], Results]  # (how an array is placed, options of the call) -> results
Print = Callable[[str], object]


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print one line for each call, and return the numbers."""
    return exercise(console.print, SMALL if tiny else STATES)


def exercise(say: Print, states: int) -> dict[str, Any]:
    """All calls with the libraries that are installed."""
    try:
        say(require_gpu())
    except CondyleError as error:
        say(str(error))
        return {}
    found: dict[str, Any] = {}
    # JAX would take three quarters of the memory
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for library in (name for name in ("torch", "cupy", "jax") if find_spec(name)):
        if library == "jax" and import_module("jax").default_backend() != "gpu":
            say("this JAX has no GPU")
            continue
        place, wait, quiet = placing(library)
        for name, (call, libraries) in calls(states).items():
            if library in libraries:
                found[f"{name}, {library}"] = row = measured(call, place, wait, quiet, library)
                say(f"{name + ', ' + library:<48} {row.get('error') or '{bits}, {ms:.3f} ms a call'.format(**row)}")
    good = sum(row.get("bits") == "same bits" for row in found.values())
    say(f"{good} of {len(found)} calls have the bits of NumPy arrays on the GPU")
    for name, sentence in refused().items():
        say(f"{name}: {sentence}")
    return found


def placing(library: str) -> tuple[Callable[[Any], Any], Callable[[], object], Any]:
    """(how a NumPy array is placed, how the GPU is waited for, a context in which waiting is an error) of a library."""
    module = import_module(library)
    if library == "torch":
        return lambda a: module.from_numpy(np.array(a)).cuda(), module.cuda.synchronize, _no_waiting
    if library == "cupy":
        return module.asarray, module.cuda.Device().synchronize, anything
    module.config.update("jax_enable_x64", True)
    return lambda a: module.device_put(np.array(a)), import_module("cupy").cuda.Device().synchronize, anything


@contextmanager
def _no_waiting() -> Iterator[None]:
    torch = import_module("torch")
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@contextmanager
def anything() -> Iterator[None]:
    """A context that forbids nothing."""
    yield


def measured(call: Call, place: Any, wait: Any, quiet: Any, library: str) -> dict[str, Any]:
    """Whether the results have the bits of NumPy arrays on the GPU, and the time of a call."""
    kept: dict[int, Any] = {}

    def once(value: Any) -> Any:
        # each array is placed with the first call only
        if id(value) not in kept:
            kept[id(value)] = value, place(value)
        return kept[id(value)][1]

    try:
        found = call(once, {})
        wait()
        wanted = call(lambda a: a, {"backend": "cuda"})
        same = all(np.array_equal(_host(a), np.asarray(b), equal_nan=True) for a, b in zip(found, wanted, strict=True))
        start = perf_counter()
        with quiet():
            for _ in range(REPEATS):
                call(once, {})
        wait()
    except Exception as error:  # one line for each call, whatever happens
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    return {"bits": "same bits" if same else "OTHER BITS", "ms": 1e3 * (perf_counter() - start) / REPEATS}


def _host(array: Any) -> np.ndarray:
    from condyle.tape.device import host

    return host(array.detach() if hasattr(array, "detach") else array)


# ---- the calls


def calls(states: int) -> dict[str, tuple[Call, tuple[str, ...]]]:
    """What is called, and with which libraries."""
    every, tensors = ("torch", "cupy", "jax"), ("torch",)
    return {
        "forward dynamics": (dynamics(states), every),
        "forward dynamics, out": (dynamics(states, out=True), ("torch", "cupy")),
        "rollout of a loop with noise": (rollout(states), every),
        "gradient of a loop": (gradient(states), every),
        "mpc, real-time iteration": (solver(states), every),
        "mpc, sampling": (sampling(states // 16), every),
        "estimation": (estimation(states), every),
        "operation with its backward pass": (operation(states), ("torch", "jax")),
        "rollout with its backward pass": (rollout_operation(states), tensors),
    }


def dynamics(states: int, out: bool = False) -> Call:
    """Forward dynamics of the UR3."""
    robot = cd.load("ur3")
    q, v, tau, zero = *np.random.default_rng(0).normal(size=(3, states, 6)), np.zeros((states, 6))

    def call(place: Any, options: dict[str, Any]) -> Results:
        target = {"out": place(zero)} if out else {}
        return (robot.forward_dynamics(place(q), place(v), place(tau), **target, **options),)

    return call


def arm_loop() -> cd.Loop:
    """A double pendulum whose angles are measured with noise."""
    sensor = cd.blocks.Measurement(2, noise=0.01, name="sensor")
    world = cd.Simulation(cd.load("double_pendulum"), dt=0.01)
    return cd.Loop(world, lambda x, target: 20.0 * (target - sensor(x.q)["value"]) - 2.0 * x.v, target=2)


def rollout(states: int) -> Call:
    """Rollouts with noise."""
    loop = arm_loop()
    x, target = loop.state(np.random.default_rng(0).normal(size=(states, 2))), np.array([0.1, 0.2])

    def call(place: Any, options: dict[str, Any]) -> Results:
        found = loop.rollout(place(x), place(target), TICKS, every=TICKS, seed=3, freeze=True, **options)
        return found.x, found["q"]

    return call


def gradient(states: int) -> Call:
    """Gradients by states and references."""
    loop, draw = arm_loop(), np.random.default_rng(0)
    x, target = loop.state(draw.normal(size=(states, 2))), draw.normal(size=(states, TICKS, 2))
    weights = draw.normal(size=x.shape)

    def call(place: Any, options: dict[str, Any]) -> Results:
        found, pullback = loop.vjp(place(x), place(target), seed=3, checkpoint=10, **options)
        return (found.x, *pullback(x1=place(weights)).values())

    return call


def cart_pole(x: Any, u: Any) -> Any:
    """dx/dt of a pole of 0.8 m and 0.1 kg on a cart of 1 kg."""
    s, c, w = np.sin(x[1]), np.cos(x[1]), x[3]
    free = 1.1 - 0.1 * c * c
    a = (-0.08 * s * w * w + 0.981 * c * s + u[0]) / free
    return np.array([x[2], w, a, (-0.08 * c * s * w * w + u[0] * c + 1.1 * 9.81 * s) / (0.8 * free)])


def solver(states: int) -> Call:
    """A real-time iteration with a reference."""
    made = cd.ocp(
        cart_pole, N=10, dt=0.05, x=4, u=1, residual=lambda x, u, r: np.concatenate([x - r, u]),
        weights=[20.0, 20.0, 0.1, 0.1, 0.02], reference=4, bounds={"u": 8.0},
    ).rti()  # fmt: skip
    x, r = 0.2 * np.random.default_rng(0).normal(size=(states, 4)), np.zeros((11, 4))
    plan = made.start(x)

    def call(place: Any, options: dict[str, Any]) -> Results:
        if options:
            found = made.solution(made.function.on("cuda")(x, *plan.values(), reference=r))
        else:
            found = made(place(x), {name: place(a) for name, a in plan.items()}, reference=place(r))
        return found.u, found.status, found.plan["states"]

    return call


def sampling(states: int) -> Call:
    """MPPI with 64 samples; NumPy arrays have no backend to choose, so it is compared with its kernels."""
    problem = cd.ocp(cart_pole, N=10, dt=0.05, x=4, u=1, cost=lambda x, u: x @ x + 0.1 * u @ u, bounds={"u": 8.0})
    made = problem.mppi(samples=64, noise=2.0, temperature=0.5)
    x = 0.2 * np.random.default_rng(0).normal(size=(states, 4))
    plan = made.start(x)

    def call(place: Any, options: dict[str, Any]) -> Results:
        if not options:
            found: Any = made(place(x), {name: place(a) for name, a in plan.items()})
            return found.u, found.cost
        spread = x[:, None], plan["controls"][:, None], plan["tick"][:, None]
        costs = made.rollout.on("cuda")(*spread, np.arange(64.0))
        found = made.update.on("cuda")(plan["controls"], plan["tick"], costs)
        return found.u, found.cost

    return call


def estimation(states: int) -> Call:
    """The first estimate of a moving window; compared with itself, for it has no backend to choose."""
    A = np.array([[1.0, 0.1], [-0.2, 0.9]])
    made = cd.mpc.mhe(
        lambda x, u: A @ x + 0.1 * u, N=3, x=2, u=2, measure=lambda x: x[:1], process={"x": [0.02, 0.05]}, measurement=[0.1],
        prior=[1.0, 0.5],
    )  # fmt: skip
    draw = np.random.default_rng(0)
    x, y, u = draw.normal(size=(states, 2)), draw.normal(size=(states, 1)), draw.normal(size=(states, 2))
    last: list[Any] = []

    def call(place: Any, options: dict[str, Any]) -> Results:
        if options:
            return tuple([_host(a) for a in last])
        found = made(place(y), made.start(place(x)), place(u))
        last[:] = [found.x, found.states]
        return found.x, found.states

    return call


def operation(states: int) -> Call:
    """Forward dynamics as an operation, and the gradient of the sum of its squares."""
    robot = cd.load("ur3")
    q, v, tau = np.random.default_rng(0).normal(size=(3, states, 6))
    function = cd.function(robot.forward_dynamics, q=6, v=6, tau=6)
    own: dict[str, Any] = {name: getattr(cd, name).function(function) for name in ("torch", "jax") if find_spec(name)}

    def call(place: Any, options: dict[str, Any]) -> Results:
        arrays = [place(a) for a in (q, v, tau)]
        if options:
            a = function.on("cuda")(*arrays)
            return a, *function.vjp().on("cuda")(*arrays, 2.0 * a)
        if type(arrays[0]).__module__.startswith("torch"):
            arrays = [a.detach().requires_grad_() for a in arrays]
            a = own["torch"](*arrays)
            a.square().sum().backward()
            return a, *[b.grad for b in arrays]
        a, pullback = import_module("jax").vjp(own["jax"], *arrays)
        return a, *pullback(2.0 * a)

    return call


def rollout_operation(states: int) -> Call:
    """A rollout as an operation, and its gradients."""
    loop, draw = arm_loop(), np.random.default_rng(0)
    x, target = loop.state(draw.normal(size=(states, 2))), draw.normal(size=(states, TICKS, 2))
    made = cd.torch.rollout(loop) if find_spec("torch") else None

    def call(place: Any, options: dict[str, Any]) -> Results:
        if options:
            found, pullback = loop.vjp(x, target, **options)
            gradients = pullback(x1=2.0 * found.x)
            return found.x, gradients["x"], gradients["target"]
        arrays = [place(a).detach().requires_grad_() for a in (x, target)]
        x1 = made(*arrays)
        x1.square().sum().backward()
        return x1, *[a.grad for a in arrays]

    return call


def refused() -> dict[str, str]:
    """The sentences of what cannot be."""
    if not find_spec("torch"):
        return {}
    torch, robot = import_module("torch"), cd.load("double_pendulum")
    q = torch.zeros((4, 2), dtype=torch.float64, device="cuda")
    wide = torch.zeros(1, dtype=torch.float64, device="cuda").expand(2**35, 2)
    wrong: dict[str, Callable[[], object]] = {
        "float16": lambda: robot.forward_dynamics(q.half(), q.half(), q.half()),
        "strides": lambda: robot.forward_dynamics(torch.zeros((4, 3, 4), dtype=q.dtype, device="cuda")[:, :2, :2], q[0], q[0]),
        "two precisions": lambda: robot.forward_dynamics(q, q.float(), q),
        "out on the processor": lambda: robot.forward_dynamics(q, q, q, out=np.zeros((4, 2))),
        "out of memory": lambda: robot.forward_dynamics(wide, wide, wide),
    }
    found = {}
    for name, call in wrong.items():
        try:
            call()
            found[name] = "NOT REFUSED"
        except CondyleError as error:
            found[name] = str(error)
    return found


if __name__ == "__main__":
    exercise(lambda text: print(text, flush=True), int(sys.argv[1]) if len(sys.argv) > 1 else STATES)
