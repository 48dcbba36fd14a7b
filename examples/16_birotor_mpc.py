"""Nonlinear model-predictive control of the birotor: one kernel makes a real-time iteration, every 10 ms.

The model is the controller's single body with two tilting rotors: 15 states (position, velocity, quaternion, body rate, two
gimbal angles), 4 controls (two thrusts, two gimbal commands). Thrusts, commands and angles have hard bounds, velocity and rate
soft ones. After two seconds the attitude to follow is one that two rotors cannot reach: the controller stays close. It flies the
multibody, whose gimbals have mass, and the plan of every tick is part of the run: `condyle view` draws it.
"""

import tempfile
from pathlib import Path

import numpy as np

import condyle as cd
from condyle.demos.birotor_control import ROTORS, actuated
from condyle.dynamics.energy import center_of_mass, momentum, total_mass

MASS, INERTIA, GRAVITY = 1.444422, np.array([0.055430, 0.017874, 0.067852]), 9.798
ARMS, SPINS, DRAG, T_SERVO = np.array([[0.0, 0.2375, 0.12098], [0.0, -0.2375, 0.12098]]), (1.0, -1.0), 0.0172, 0.15858
CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])


def product(p, q):
    """The product of two quaternions (w, x, y, z)."""
    a, b, c, d = p
    return np.array([[a, -b, -c, -d], [b, a, -d, c], [c, d, a, -b], [d, -c, b, a]]) @ q


def derivative(x, u):
    """dx/dt of the single-body model."""
    v, q, w, angle = x[3:6], x[6:10], x[10:13], x[13:15]
    force, torque = np.zeros(3), np.zeros(3)
    for i in range(2):
        side = np.sign(ARMS[i, 1])  # the arm points along +-y, and the rotor tilts about it
        f = u[i] * np.array([side * np.sin(angle[i]), 0.0, np.cos(angle[i])])
        force = force + f
        torque = torque + np.cross(ARMS[i], f) - SPINS[i] * DRAG * f
    turned = product(product(q, np.array([0.0, *force])), q * CONJUGATE)[1:]
    acceleration = turned / MASS - np.array([0.0, 0.0, GRAVITY])
    rate = (torque - np.cross(w, INERTIA * w)) / INERTIA
    return np.concatenate([v, acceleration, 0.5 * product(q, np.array([0.0, *w])), rate, (u[2:] - angle) / T_SERVO])


def state_error(x, r):
    """Errors of position, velocity, attitude, rate and angle; a reference is position, velocity, quaternion, thrusts, angles."""
    return np.concatenate([x[:6] - r[:6], product(r[6:10] * CONJUGATE, x[6:10])[1:], x[10:13], x[13:] - r[12:]])


def reference(position, attitude=(0.0, 0.0, 0.0)):
    """The reference at a position with roll, pitch and yaw: thrusts and angles that carry the weight best, by least squares."""
    c, s = np.cos(np.array(attitude) / 2.0), np.sin(np.array(attitude) / 2.0)
    q = product(product([c[2], 0, 0, s[2]], np.array([c[1], 0, s[1], 0])), np.array([c[0], s[0], 0, 0]))
    weight = product(product(q * CONJUGATE, np.array([0, 0, 0, MASS * GRAVITY])), q)[1:]
    columns = []
    for arm, spin in zip(ARMS, SPINS, strict=True):
        for f in (np.array([np.sign(arm[1]), 0.0, 0.0]), np.array([0.0, 0.0, 1.0])):
            columns.append(np.concatenate([f, np.cross(arm, f) - spin * DRAG * f]))
    s1, c1, s2, c2 = np.linalg.pinv(np.array(columns).T) @ np.concatenate([weight, np.zeros(3)])
    return np.array([*position, 0, 0, 0, *q, np.hypot(s1, c1), np.hypot(s2, c2), np.arctan2(s1, c1), np.arctan2(s2, c2)])


STATE_WEIGHTS = [300, 300, 400, 10, 10, 10, 300, 300, 600, 5, 5, 5, 1, 1]
problem = cd.ocp(
    derivative,
    N=20,
    dt=0.1,
    x={"position": 3, "velocity": 3, "attitude": cd.mpc.quaternion("wxyz"), "rate": 3, "angle": 2},
    u={"thrust": 2, "command": 2},
    residual=lambda x, u, r: np.concatenate([state_error(x, r), u[:2] - r[10:12], u[2:] - x[13:]]),
    weights=[*STATE_WEIGHTS, 1, 1, 250, 250],
    terminal_residual=state_error,
    terminal_weights=STATE_WEIGHTS,
    reference=14,
    bounds={"velocity": 1.0, "rate": 6.0, "angle": 1.5708, "thrust": (0.0, 18.0), "command": 1.5708},
    soft={"velocity": 2000.0, "rate": 2000.0},
)


def flight(robot):
    """The loop of the multibody under the controller: a plan every 10 ms, rotors and servos at every step."""
    model = robot.model
    mpc = cd.mpc.SolverBlock(problem.rti(), np.eye(15)[6], reference([0.0, 0.0, 0.0])[10:], every=5)

    def control(x, target):
        velocity = momentum(model, x.q, x.v)[:3] / total_mass(model)
        measured = [center_of_mass(model, x.q), velocity, x.q[[6, 3, 4, 5]], x.v[3:6], x.q[7:]]
        u = mpc(np.concatenate(measured), reference=target)
        acting = actuated(model, x.q, u[:2], u[2:])
        return {"u": acting["u"], "wrenches": dict(zip(ROTORS, acting["wrenches"], strict=True))}

    return cd.Loop(cd.Simulation(robot, 0.002, integrator="rk4", wrenches=ROTORS), control, target=14)


def fly(path, seconds=(2.0, 4.0, 3.0)):
    """The run: to a first position, an attitude out of reach, to a second position."""
    robot = cd.load("birotor")
    loop, q = flight(robot), robot.neutral()
    q[:3] -= robot.center_of_mass(q)
    targets = [reference([0.3, 0.6, 1.0]), reference([0.3, 0.6, 1.0], np.radians([30, 60, 90])), reference([1.0, 1.0, 1.0])]
    with cd.Recorder(loop, loop.state(q), path, title="birotor, NMPC", polylines={"mpc.states": (0, 1, 2)}) as recorder:
        for target, long in zip(targets, seconds, strict=True):
            if long:
                recorder.rollout(target, round(long / loop.dt))
    return recorder.run


if __name__ == "__main__":
    path = Path(tempfile.mkdtemp()) / "birotor_mpc.cdl"
    run = fly(path)
    for k in (1000, 3000, 4500):
        where, iterations = run.robot.center_of_mass(run.q[k]), run.states["mpc.iterations"][k]
        print(f"{run.t[k]:.0f} s: position {where.round(3)}, quaternion {run.q[k, 3:7].round(3)}, {iterations:.0f} iterations")
    assert np.abs(where - 1.0).max() < 5e-3
    print(f"checked: it reaches its targets; condyle view {path}")
