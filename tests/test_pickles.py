"""Pickles and copies of what users hold: with the same bits afterwards, before and after the first call."""

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import CondyleError, FileError, RobotError, require_importable
from condyle.tape.bundle import this_processor

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}
STIFFNESS = cd.parameter("stiffness", 40.0)
ONES = np.ones(3)


class Servo(cd.Block):
    """A lag with a gain."""

    def __init__(self) -> None:
        super().__init__(every=2)
        self.gain = self.parameter("gain", 3.0, minimum=0.0)
        self.state("y", np.zeros(3))

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        y = 0.5 * (state["y"] - self.gain * inputs[0])
        return y, {"y": y}


SERVO = Servo()


def spring(x: Any) -> Any:
    return -STIFFNESS * x, x[0]


def control(x: Any, action: Any) -> Any:
    return {"u": SERVO(x.q - action), "speed": x.v}


def observe(s: Any) -> Any:
    return np.concatenate([s.x.q, s["speed"]])


def reward(s: Any) -> Any:
    return -s.x.q @ s.x.q


def fallen(x: Any) -> Any:
    return x.q[0] > 3.0


def begin(draw: Any) -> Any:
    return {"q": draw.uniform(-0.1, 0.1, 3)}


def drag(model: Any, q: Any, v: Any) -> Any:
    return -0.1 * v


def double_integrator(x: Any, u: Any) -> Any:
    return cd.array([x[1], u[0]])


def residual(x: Any, u: Any, r: Any, p: Any) -> Any:
    return cd.array([p["scale"] * x[0], x[1] - r[0], u[0]])


def position(x: Any) -> Any:
    return x[:1]


def hill(x: Any, y: Any) -> Any:
    return 0.1 * np.sin(x) * y


def world(**options: Any) -> cd.Simulation:
    return cd.Simulation(cd.load("chain:3"), 0.002, **options)


def loop(**options: Any) -> cd.Loop:
    return cd.Loop(world(), control, action=3, **options)


def environment() -> cd.VectorEnv:
    randomize = {"servo.gain": (1.0, 2.0)}
    return cd.VectorEnv(
        loop(), observe, reward, reset=begin, num_envs=3, randomize=randomize, time_limit=0.006, shared={"a": 1.0}
    )


def problem() -> Any:
    return cd.ocp(
        double_integrator, x=2, u=1, N=4, dt=0.1, residual=residual, reference=1, parameters={"scale": 2.0},
        bounds={"u": 1.0}, soft={}, move_blocking=[1, 3],
    )  # fmt: skip


def estimator() -> Any:
    return cd.mpc.mhe(double_integrator, N=3, measure=position, x=2, u=1, dt=0.1, process=0.1, measurement=0.1, prior=1.0)


def step(w: Any) -> Any:
    return w.step(w.state(), np.ones(w.nu), derivatives=True)


def solve(solver: Any) -> Any:
    found = solver(np.array([0.3, -0.2]), reference=[0.5])
    return found.u, found.states


def estimate(e: Any) -> Any:
    return e(np.ones(1), e.start(np.zeros(2)), np.ones(1)).x


def in_time(env: Any) -> Any:
    """Three steps, with which episodes end, from where the environment is."""
    state = env.state
    found = [env.observations, *(out for _ in range(4) for out in env.step(np.full((3, 3), 0.1))[:4])]
    env.restore(state)
    return found


FUNCTION = cd.function(spring, x=3)
# kind: (what makes it, what is computed with it)
EXAMPLES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "Function": (lambda: cd.function(spring, x=3), lambda f: (*f(ONES), *f(ONES, stiffness=2.0), *f(np.ones((2, 3))))),
    "Function on a backend": (lambda: FUNCTION.on("reference"), lambda f: (f.backend, *f(ONES))),
    "derivatives": (FUNCTION.jacobian, lambda f: f(ONES)),
    "Outputs": (lambda: FUNCTION(ONES), lambda out: (out.out0, out.out1, *out)),
    "step_function": (lambda: world().step_function(), lambda f: f.jacobian("x1", "x")(np.zeros(6), ONES)),
    "Tape": (lambda: FUNCTION.tape, lambda tape: (tape.hash, str(tape))),
    "Parameter": (lambda: STIFFNESS, lambda p: (p.name, p.default, p.default.flags.writeable)),
    "Rows": (lambda: cd.Rows(None, 3), lambda rows: rows.shape),
    "Uniform": (lambda: cd.Uniform(3), lambda rows: (rows.shape, rows.uniform)),
    "Robot": (lambda: cd.load("chain:3"), lambda r: (r.forward_dynamics(ONES, ONES, ONES), *r.report)),
    "Description": (lambda: cd.load("chain:3").described, repr),
    "Simulation": (world, step),
    "Simulation with a force": (lambda: world(force=drag), step),
    "Plane": (lambda: cd.Plane(friction=0.5), repr),
    "Slope": (lambda: cd.Slope(5.0), repr),
    "Stairs": (lambda: cd.Stairs(0.1, 0.3, 4), repr),
    "HeightField": (lambda: cd.HeightField(np.eye(4), 0.1), lambda g: (repr(g), g.surface(0.1, 0.2))),
    "Terrain": (lambda: cd.Terrain(hill), lambda g: (repr(g), g.surface(0.1, 0.2))),
    "Uneven": (lambda: cd.Uneven(roughness=0.1), repr),
    "Block": (Servo, lambda b: (b.name, b.every, b.gain.default, b.parameters["gain"].spec.minimum, b.states["y"])),
    "MLP": (lambda: cd.blocks.MLP([(np.ones((2, 3)), np.ones(2))], "elu"), lambda b: [w.default for w in b.tables.values()]),
    "Episode": (lambda: cd.Episode(fallen, 1.0, begin, 3), repr),
    "Loop": (loop, lambda x: (x.rollout(x.state(), ONES, 3, record=["servo"])["servo"], x.step(x.state(), ONES))),
    "Loop without a robot": (
        lambda: cd.Loop(None, spring_of_time, dt=0.01), lambda x: x.rollout(x.state(), steps=3, record=["y"])["y"]
    ),
    "Loop with an episode": (
        lambda: loop(episode=cd.Episode(fallen, 0.004, begin)), lambda x: x.rollout(x.state(), ONES, 5, seed=3).x
    ),
    "Rollout": (lambda: LOOP.rollout(LOOP.state(), ONES, 3, record=["speed"]), lambda run: (run.x, run["speed"], run.status.ok)),
    "VectorEnv": (environment, in_time),
    "Problem": (problem, lambda p: solve(p.rti())),
    "RTI": (lambda: problem().rti(qp_iterations=7), solve),
    "derivatives of a solution": (lambda: problem().rti().function, lambda f: f.tape.hash),
    "SQP": (lambda: problem().sqp(iterations=5), solve),
    "iLQR": (lambda: cd.ocp(double_integrator, x=2, u=1, N=3, dt=0.1, cost=square).ilqr(), lambda s: s(ONES[:2]).u),
    "MPPI": (lambda: cd.ocp(double_integrator, x=2, u=1, N=3, dt=0.1, cost=square).mppi(samples=4), lambda s: s(ONES[:2]).u),
    "Solution": (lambda: problem().rti()(np.zeros(2)), lambda found: (found.u, found.states, found.message)),
    "SolverBlock": (lambda: cd.mpc.SolverBlock(problem().rti(), np.zeros(2)), lambda b: (b.name, sorted(b.states))),
    "Estimator": (estimator, estimate),
    "Stance": (lambda: cd.stance(quadruped()), lambda s: (s.q, s.u)),
    "Run": (lambda: recorded(), lambda run: (run.x, run.u, run.about["columns"]["x"])),
}  # fmt: skip


def square(x: Any, u: Any) -> Any:
    return x @ x + u @ u


def spring_of_time(t: Any) -> Any:
    return {"y": np.sin(t.t)}


def quadruped() -> cd.Simulation:
    return cd.Simulation(cd.load("quadruped"), 0.002, cd.Plane())


def recorded() -> Any:
    with cd.Recorder(world(), world().state()) as recorder:
        recorder.step(ONES)
    return recorder.run


LOOP = loop()
# classes whose objects are no values: of one trace, of one file that is written; errors and warnings have tests of their own
OTHERS = {"Table", "Recorder"} | {name for name in cd.__all__ if name.endswith(("Error", "Warning"))}


def numbers(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in numbers(part)]
    return [np.asarray(value).tolist()]


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_copies_compute_the_same_bits(kind: str, how: str) -> None:
    make, use = EXAMPLES[kind]
    original = make()
    before = COPIES[how](original)
    wanted = numbers(use(original))
    after = COPIES[how](original)
    assert type(after) is type(before) and isinstance(original, type(after))
    for other in (before, after, original):
        assert numbers(use(other)) == wanted


def test_every_public_class_with_state_has_an_example() -> None:
    classes = {name for name in cd.__all__ if inspect.isclass(getattr(cd, name))}
    assert classes - OTHERS <= EXAMPLES.keys()


def test_a_copy_is_an_object_of_its_own() -> None:
    env = environment()
    other = copy.deepcopy(env)
    before = env.state
    other.step(np.ones((3, 3)))
    other.shared["a"] = 2.0
    assert np.array_equal(env.state, before) and env.shared["a"] == 1.0 and not np.array_equal(other.state, before)
    scales = {"scale": 2.0}
    made = cd.ocp(double_integrator, x=2, u=1, N=2, dt=0.1, residual=residual, reference=1, parameters=scales)
    scales["scale"] = 3.0
    assert copy.copy(made).data["scale"].default == 2.0


def test_a_pickle_computes_the_same_bits_in_another_process(tmp_path: Path) -> None:
    function = cd.function(lambda x: (np.sin(x), {"k": x @ x}["k"]), x=3)
    derivatives = function.jacobian()
    path = tmp_path / "functions.pkl"
    path.write_bytes(pickle.dumps((function, derivatives, function(ONES))))
    code = "import pickle, sys; f, g, y = pickle.load(open(sys.argv[1], 'rb')); a = f([1.0] * 3); b = g([1.0] * 3)\n"
    code += "print((*a, *b, *y), type(a) is type(y))"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"{(*function(ONES), *derivatives(ONES), *function(ONES))} True", done.stderr


@pytest.mark.parametrize(
    "make",
    [
        lambda: cd.Loop(world(), lambda x: -x.q),
        lambda: loop(episode=cd.Episode(lambda x: x.q[0] > 1.0)),
        lambda: cd.VectorEnv(loop(), lambda s: s.x.q, reward, num_envs=2),
        lambda: cd.VectorEnv(loop(), observe, reward, num_envs=2, randomize={"servo.gain": lambda draw: draw.uniform(1.0, 2.0)}),
        lambda: cd.ocp(double_integrator, x=2, u=1, N=2, dt=0.1, cost=lambda x, u: x @ x).rti(),
        lambda: cd.mpc.mhe(
            double_integrator, N=3, measure=lambda x: x[:1], x=2, u=1, dt=0.1, process=0.1, measurement=0.1, prior=1.0
        ),
        lambda: world(force=lambda model, q, v: -v),
        lambda: cd.Simulation(cd.load("quadruped"), 0.002, cd.Terrain(lambda x, y: 0.01 * x)),
    ],
)
def test_a_function_without_a_name_stands_in_the_way_of_pickles_alone(make: Callable[[], Any]) -> None:
    original = make()
    with pytest.raises(
        CondyleError, match=r"uses .*<lambda> \(.*test_pickles.py:\d+\): .* define it by `def` at the top of a mod"
    ):
        pickle.dumps(original)
    assert type(copy.deepcopy(original)) is type(copy.copy(original)) is type(original)


def test_picklers_that_hold_functions_themselves_take_any() -> None:
    called = FunctionType(compile("ask(f)", "cloudpickle.py", "exec"), {"__name__": "cloudpickle.cloudpickle"})
    called.__globals__.update(ask=lambda f: require_importable("the loop", f), f=lambda x: x)
    called()
    with pytest.raises(CondyleError, match="the loop uses"):
        require_importable("the loop", called.__globals__["f"])


def test_errors_come_back_from_other_processes() -> None:
    error = RobotError(["arm.urdf:3: one", "arm.urdf:4: two"])
    assert pickle.loads(pickle.dumps(error)).problems == error.problems
    for name in cd.__all__:
        if name.endswith("Error"):
            assert str(pickle.loads(pickle.dumps(getattr(cd, name)("what is wrong")))) == "what is wrong"


def test_a_bundle_pickles_with_its_code(tmp_path: Path) -> None:
    cd.save_bundle(tmp_path / "spring.cdb", {"spring": FUNCTION}, [f"cpu:{name}" for name in this_processor()], ["f64"])
    bundle = cd.load_bundle(tmp_path / "spring.cdb")
    wanted = bundle["spring"](ONES)
    (tmp_path / "spring.cdb").unlink()
    for how in COPIES.values():
        assert (
            numbers(how(bundle)["spring"](ONES))
            == numbers(how(bundle["spring"])(ONES))
            == numbers(how(wanted))
            == numbers(wanted)
        )


def test_a_recorder_that_writes_a_file_has_no_copy(tmp_path: Path) -> None:
    with cd.Recorder(world(), world().state(), tmp_path / "a.run") as recorder:
        for how in COPIES.values():
            with pytest.raises(FileError, match=r"a.run is written by one recorder, which has no copies"):
                how(recorder)
