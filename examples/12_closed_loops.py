"""A slider-crank: a tree of three bodies whose loop is closed, against the formulas of every textbook.

python examples/12_closed_loops.py
"""

import numpy as np

import condyle as cd
from condyle.robot.description import Description
from condyle.robot.parts import X, Y, body, frame, joint, link, pose

CRANK, ROD = 0.25, 0.75  # m; the rod weighs next to nothing
PISTON, FLYWHEEL = 0.5, 0.05  # kg, and kg m^2 on the crank
GAS = -100.0  # N, on the piston

light = 1e-9
links = (
    link("engine"),
    link("crank", body(1.0, (0.0, 0.0, 0.0), (FLYWHEEL / 2.0, FLYWHEEL, FLYWHEEL / 2.0))),
    link("rod", body(light, (0.0, 0.0, 0.0), (light,) * 3)),
    link("piston", body(PISTON)),
)
joints = (
    joint("crank", "continuous", "engine", "crank", pose(), Y),
    joint("rod", "continuous", "crank", "rod", pose((CRANK, 0.0, 0.0)), Y),
    joint("cylinder", "prismatic", "engine", "piston", pose(), X),
)
frames = (frame("small_end", "rod", (ROD, 0.0, 0.0)), frame("pin", "piston"))
tree = cd.load(Description("engine", links, joints, frames), gravity=(0.0, 0.0, 0.0))

# the rod's end stays on the piston's pin: two conditions, so that one of three coordinates is left
engine = tree.close_loop("small_end", "pin", "xz", q=[0.0, 0.0, CRANK + ROD], independent=["crank"])
print(engine)

angle = np.linspace(0.0, 2.0 * np.pi, 361)
q, v = engine.lift(angle[:, None], np.ones((361, 1)))
s, c = np.sin(angle), np.cos(angle)
across = np.sqrt(ROD**2 - (CRANK * s) ** 2)
where = CRANK * c + across
rate = -CRANK * s - CRANK**2 * s * c / across
print(f"piston: position off by {np.abs(q[:, 2] - where).max():.1e} m, rate by {np.abs(v[:, 2] - rate).max():.1e} m/rad")

# a force on the piston, at the crank; and the inertia there, the flywheel's and the piston's seen through the rod
torque = engine.reduce_forces(angle[:, None], np.tile([0.0, 0.0, GAS], (361, 1)))[:, 0]
inertia = engine.mass_matrix(angle[:, None])[:, 0, 0]
print(f"{GAS:g} N on the piston give at most {np.abs(torque).max():.2f} N m; the crank feels {inertia.max():.5f} kg m^2")

# let it run: the energy stays, and the loop is closed at every step
world = cd.Simulation(engine, dt=0.001, integrator="rk4")
xs = world.rollout(world.state([0.3], [20.0]), np.zeros((5000, world.nu)))
energy = world.energy(xs)
full = engine.lift(*world.split(xs))[0]
gap = tree.frame_pose(full, "small_end")[1] - tree.frame_pose(full, "pin")[1]
print(
    f"5 s of running: {xs[-1, 0] / (2 * np.pi):.1f} turns, energy {np.ptp(energy) / energy[0]:.1e}, gap {np.abs(gap).max():.1e} m"
)

# a check of what is claimed
assert np.abs(q[:, 2] - where).max() < 1e-14 and np.abs(v[:, 2] - rate).max() < 1e-14
assert np.abs(torque - GAS * rate).max() < 1e-11
assert np.abs(inertia - FLYWHEEL - PISTON * rate**2).max() < 1e-8  # what the rod weighs
assert np.ptp(energy) < 1e-6 * energy[0]
assert np.abs(gap).max() < 1e-14
print("checked: positions, rates, torques and inertias are the textbook's; it keeps its energy, and the loop stays closed")
