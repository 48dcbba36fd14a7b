"""A small experiment that all tests of the lab share: two joints, noise, delay, dropout, friction and a push."""

from condyle.apps.lab.experiment import Experiment

DATA = {
    "title": "two joints",
    "duration": 0.2,
    "seed": 3,
    "robot": {"name": "double_pendulum", "q": [0.3, -0.2], "tool": "tip"},
    "rates": {"physics": 1000, "control": 500, "planner": 50},
    "controller": {"name": "computed_torque", "kp": 400.0, "kd": 40.0},
    "reference": {"kind": "step", "target": [0.5, 0.1], "at": 0.02},
    "friction": {"coulomb": 0.01, "viscous": 0.02},
    "sensors": {"position_noise": 1e-4, "delay": 0.004, "dropout": 0.1},
    "actuators": {"effort": 50.0, "delay": 0.002, "lag": 0.002},
    "wrenches": [{"name": "push", "wrench": [0.0, 0.0, 2.0, 0.0, 0.0, 0.0], "start": 0.1, "duration": 0.02}],
}


def small(**changes) -> Experiment:
    """The experiment with other top-level tables and values."""
    return Experiment.from_data({**DATA, **changes})


TOML = """
duration = 0.1
seed = 1
[robot]
name = "double_pendulum"
q = [0.3, -0.2]
[rates]
physics = 1000
control = 500
[controller]
name = "computed_torque"
kp = 400.0
kd = 40.0
[reference]
kind = "step"
target = [0.5, 0.1]
[sensors]
position_noise = 1e-4
"""
