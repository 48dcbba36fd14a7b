"""Nonlinear model-predictive control of the birotor: one kernel makes a real-time iteration, every 10 ms.

The model is the controller's single body with two tilting rotors: 15 states (position, velocity, quaternion, body rate, two
gimbal angles), 4 controls (two thrusts, two gimbal commands). Thrusts, commands and angles have hard bounds, velocity and rate
soft ones. After two seconds the attitude to follow is one that two rotors cannot reach: the controller stays close, level. It
flies the multibody, whose gimbals have mass, and the plan of every tick is part of the run: `condyle view` draws it.
"""

import tempfile
from pathlib import Path

import numpy as np

import condyle as cd

airframe = cd.flight.airframe("birotor")
vehicle = cd.flight.Vehicle(airframe, 0.005)
nmpc = cd.flight.Nmpc(airframe, gravity=9.798, every=2, thrust=(0.0, 18.0), angle=(-1.5708, 1.5708))


def fly(path, seconds=9.0):
    """The run: to a first position, an attitude out of reach, to a second position."""
    loop = vehicle.loop(lambda x, reference: nmpc(vehicle.measured(x), reference), reference=nmpc.reference_size)
    steps = round(seconds / loop.dt)
    references = nmpc.references(cd.flight.standard_scenario(), loop.dt * np.arange(steps))
    x0, horizon = loop.state(vehicle.configuration()), {"nmpc.states": (0, 1, 2)}
    with cd.Recorder(loop, x0, path, title="birotor, NMPC", polylines=horizon) as recorder:
        recorder.rollout(references, steps)
    return recorder.run


if __name__ == "__main__":
    path = Path(tempfile.mkdtemp()) / "birotor_mpc.cdl"
    run = fly(path)
    for k in (400, 1200, 1800):
        where, (x, y, z, w) = airframe.robot.center_of_mass(run.q[k]), run.q[k, 3:7]
        heading = np.degrees(np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))
        print(f"{run.t[k]:.0f} s: position {where.round(3)}, heading {heading:.1f} degrees")
    assert np.abs(where - 1.0).max() < 5e-3 and run.states["nmpc.failures"][-1] == 0.0
    print(f"checked: it reaches its targets; condyle view {path}")
