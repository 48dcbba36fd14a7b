"""PiDog walks its manufacturer's gait, and a picture of it is drawn by the software renderer.

python examples/15_quadruped_walk.py [FOLDER]
"""

import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from condyle.apps.demos import pidog
from condyle.workbench.view.picture import save_picture

folder = Path(sys.argv[1] if len(sys.argv) > 1 else mkdtemp())
run = pidog.run(folder / "walk.cdl")
print(run)

start, end = run.q[0], run.q[-1]
distance = end[:2] - start[:2]
print(f"it moved {1e3 * distance[0]:.0f} mm forward and {1e3 * distance[1]:.0f} mm to the left in {run.t[-1]:g} s")

# the weight is on its feet
support = run.contact_forces[..., 2].sum(axis=1).mean()
weight = run.robot.mass * 9.81
print(f"the ground carries {support:.3f} N on average; it weighs {weight:.3f} N")

picture = folder / "walk.png"
save_picture(picture, run.robot, end, ghosts=[start], trail=run.q[::20, :3])
print(f"{picture.name}: {picture.stat().st_size / 1e3:.0f} kB")

# a check of what is claimed
assert distance[0] > 0.05 and abs(distance[1]) < 0.05
assert abs(support - weight) < 0.02 * weight
assert picture.read_bytes()[:4] == b"\x89PNG" and np.isfinite(run.x).all() and run.check().identical
print("checked: the robot walks forward, the ground carries its weight, and the run replays bit for bit")
