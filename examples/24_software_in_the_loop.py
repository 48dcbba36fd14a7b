"""A controller in another process: PD control in Python, and computed torque in C that has the bits of the kernel.

The simulation runs at 4 kHz and waits for a command every millisecond (lock-step), so the run depends on the numbers of the
program alone. What was commanded is recorded, and the run repeats without the program.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import condyle as cd
from condyle.dynamics.rnea import inverse_dynamics
from condyle.workbench.connect.external import ExternalControl
from condyle.workbench.connect.shared_memory import SharedMemory

EXTERNAL = Path(__file__).resolve().parent / "external"
READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
STEPS, EVERY = 2000, 4

robot = cd.load("ur3")
world = cd.Simulation(robot, dt=0.00025)


def law(model, q, v, t):
    """Joint forces that let every joint swing by 0.3 rad at 3 rad/s about the ready pose."""
    angle = 3.0 * t
    position, velocity, acceleration = 0.3 * np.sin(angle), 0.9 * np.cos(angle), -2.7 * np.sin(angle)
    wanted = acceleration + 40.0 * (velocity - v) + 400.0 * (READY + position - q)
    return inverse_dynamics(model, q, v, wanted)


function = robot.function(law, t=())


# -- inside the kernel


class Law(cd.Block):
    def step(self, state, q, v):
        return function(q=q, v=v, t=self.t), {}


inside = Law(every=EVERY, name="law")
loop = cd.Loop(world, lambda x: inside(x.q, x.v))
out = loop.rollout(loop.state(READY), steps=STEPS)

# -- from another process: a program that knows only names and numbers commands the joint forces

name = f"example-{os.getpid()}"
external = ExternalControl(world, SharedMemory(name), every=EVERY, signals=["gravity", "inertia"], connect_time=30.0)


def served(program, *arguments):
    """(run, last words) of a program that commands the arm."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = subprocess.Popen([*program, name, *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=environment)
    run = external.run(external.loop.state(READY), STEPS)
    said, _ = started.communicate(timeout=30)
    assert run.check(external.loop), "the run repeats without the program"
    return run, said.strip()


goal = READY + 0.2
run, said = served([sys.executable, EXTERNAL / "pd.py"], *goal)
left = np.abs(goal - run.q).max(axis=1)
print(f"PD control in Python: {said}; {left[0]:.3f} rad from the goal at first, {left[-1]:.3f} at last")
assert left[-1] < 0.2 * left[0]

languages = ["Python"]
if shutil.which("gcc"):
    languages.append("C")
    with TemporaryDirectory() as folder:
        Path(folder, "law.c").write_text(function.source("c"))
        sources = [EXTERNAL / "exported.c", Path(folder, "law.c")]
        subprocess.run(["gcc", "-O2", "-ffp-contract=off", "-o", Path(folder, "law"), *sources, "-lm"], check=True)
        run, said = served([Path(folder, "law")])
    print(f"exported C: {said}; it differs from the kernel by {np.abs(run.q[1:] - out['q']).max():g} rad at most")
    # beside the physics in one kernel, the law shares products with it, which may be rounded otherwise
    assert np.abs(run.q[1:] - out["q"]).max() < 1e-12, "a program in C gives the run of the kernel"

print(
    f"checked: programs in {' and '.join(languages)} control the arm in lock-step, and their runs repeat bit for bit without them"
)
