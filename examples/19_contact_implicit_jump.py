"""A one-legged robot jumps through contact: no contact schedule, only where the body should be; 16 random starts at once.

python examples/19_contact_implicit_jump.py
"""

import numpy as np

import condyle as cd
from condyle.robot.description import Description
from condyle.robot.parts import body, joint, link, pose, sphere

# a body on two slides, a hip and a knee; the ground is 0.5 m below the origin
foot = sphere(0.02, (0.0, 0.0, -0.25), name="foot")
leg = {"com": (0.0, 0.0, -0.125), "moments": (3e-3, 3e-3, 1e-3)}
links = [link("ground"), link("rail", body(0.01, moments=(1e-4,) * 3)), link("body", body(4.0, moments=(0.04,) * 3))]
links += [link("thigh", body(0.5, **leg)), link("shank", body(0.3, **leg), collisions=[foot])]
joints = [
    joint("x", "prismatic", "ground", "rail", pose(), (1.0, 0.0, 0.0)),
    joint("z", "prismatic", "rail", "body", pose(), (0.0, 0.0, 1.0)),
]
joints += [joint("hip", "continuous", "body", "thigh", pose(), (0.0, 1.0, 0.0))]
joints += [joint("knee", "continuous", "thigh", "shank", pose((0.0, 0.0, -0.25)), (0.0, 1.0, 0.0))]
robot = cd.load(Description("hopper", tuple(links), tuple(joints)))
ground = cd.Plane(0.8, offset=-0.5)
# contact begins 5 mm above the ground: the softer it is, the further its derivatives hold
world = cd.Simulation(robot, 0.01, ground, "foot", actuated=["hip", "knee"], smoothing=1e-2, rest_depth_mm=5.0)


def foot_motion(x):
    """(height of the foot above the ground, its speed along it)."""
    a, b = x[2], x[2] + x[3]
    height = x[1] - 0.25 * np.cos(a) - 0.25 * np.cos(b) + 0.48
    return height, x[4] - 0.25 * np.cos(a) * x[6] - 0.25 * np.cos(b) * (x[6] + x[7])


def residual(x, u, r):
    """Off the reference, torques, and the speed of a foot that is near the ground."""
    height, speed = foot_motion(x)
    return np.concatenate([x - r, u, cd.array([speed * np.exp(-40.0 * height)])])


N = 100
x0 = np.array([0.0, 0.5 * np.cos(0.6) - 0.48, 0.6, -1.2, 0.0, 0.0, 0.0, 0.0])
# the body should fly by 20 cm between 0.4 and 0.8 s; when the foot pushes and lands is left to the solver
phase = np.clip((np.linspace(0.0, 1.0, N + 1) - 0.4) / 0.4, 0.0, 1.0)
reference = np.tile(x0, (N + 1, 1))
reference[:, 1] += 0.8 * phase * (1.0 - phase)
reference[:, 5] = np.where((phase > 0.0) & (phase < 1.0), 2.0 * (1.0 - 2.0 * phase), 0.0)
problem = cd.ocp(
    world, N=N, residual=residual, weights=[30.0, 300.0, 0.1, 0.1, 1.0, 10.0, 0.01, 0.01, 1e-3, 1e-3, 0.03], reference=reference,
    terminal_residual=lambda x, r: x - r, terminal_weights=[1e3, 1e3, 100.0, 100.0, 10.0, 10.0, 1.0, 1.0], bounds={"u": 60.0},
)  # fmt: skip
solver = problem.ilqr(iterations=150, tolerance=1e-6, regularization=1e-3)

# sixteen starts with random torques, one in each lane
rng = np.random.default_rng(0)
plan = solver.start(np.tile(x0, (16, 1)))
plan["controls"] = plan["controls"] + 5.0 * rng.normal(size=plan["controls"].shape)
found = solver(np.tile(x0, (16, 1)), plan)
best = int(np.argmin(found.cost))
states = found.states[best]
height, speed = foot_motion(states.T)
print(f"costs from {found.cost.min():.0f} to {found.cost.max():.0f}, up to {found.iterations.max():.0f} iterations")
print(f"the foot rises by {100.0 * height.max():.0f} cm and is in the air for {10 * int((height > 0.005).sum())} ms")
landed = states[-1]
assert height.max() > 0.1 and np.abs(found.controls).max() <= 60.0
assert abs(landed[1] - x0[1]) < 0.03 and np.abs(landed[4:6]).max() < 0.5, "it lands where it stood, and stays there"
print("checked: it jumps without a contact schedule, within its torques, and lands where it stood")
