"""A run is recorded as it happens, read back, exported and imported, and repeated: every bit is the same.

python examples/14_record_and_replay.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import condyle as cd
from condyle.workbench.runs.convert import export_run, import_run

robot = cd.load("double_pendulum")
world = cd.Simulation(robot, dt=0.002, integrator="rk4")
folder = TemporaryDirectory()
path = Path(folder.name) / "swing.cdl"

# a little torque that depends on the state, and a signal of our own beside it
with cd.Recorder(world, world.state([2.0, 1.0]), path, title="a driven double pendulum", controller="damping") as recorder:
    for _ in range(2000):
        q, v = world.split(recorder.x)
        recorder.step(-0.05 * v, energy=world.energy(recorder.x))

run = cd.read_run(path)
print(run)
print(run.check())

# through a table of text: floats are written so that they come back as they were
export_run(run, path.with_suffix(".csv"))
again = import_run(path.with_suffix(".csv"))
print(f"{path.with_suffix('.csv').stat().st_size / 1e3:.0f} kB of CSV; {again.check()}")

# power is lost while the file is written: it ends in the middle of a block
cut = path.with_name("cut.cdl")
cut.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
rest = cd.read_run(cut)
print(f"{rest.steps} steps are left: {rest.lost}")

# a check of what is claimed
assert run.check().identical and again.check().identical and rest.check().identical
assert np.array_equal(run.x, again.x) and np.array_equal(run.x[: rest.steps + 1], rest.x)
assert rest.lost and 0 < rest.steps < run.steps
assert run.extras["energy"][-1] < run.extras["energy"][0]
print("checked: the run repeats bit for bit, after its export and import, and after its file was cut")
