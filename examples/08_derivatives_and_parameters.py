"""Weigh a payload from torques: derivatives by the state for a linearisation, and by a parameter of the model.

python examples/08_derivatives_and_parameters.py
"""

import numpy as np

import condyle as cd

arm = cd.load("ur3")
rng = np.random.default_rng(0)

# the linear model of the arm about a state: x' = A x + B tau with x = (q, v)
q, v, tau = arm.random_configuration(rng), rng.normal(size=6), rng.normal(size=6)
da_dq, da_dv, da_dtau = arm.forward_dynamics_derivatives(q, v, tau)
A = np.block([[np.zeros((6, 6)), np.eye(6)], [da_dq, da_dv]])
B = np.vstack([np.zeros((6, 6)), da_dtau])
dx, du = 1e-6 * rng.normal(size=12), 1e-6 * rng.normal(size=6)
linear = arm.forward_dynamics(q, v, tau) + (A @ dx + B @ du)[6:]
true = arm.forward_dynamics(q + dx[:6], v + dx[6:], tau + du)
print("the linear model is off by", np.abs(linear - true).max(), "rad/s^2")
assert np.abs(linear - true).max() < 1e-6 * np.abs(true).max()
assert np.allclose(da_dtau @ arm.mass_matrix(q), np.eye(6), atol=1e-10)

# mass and centre of mass of the last link become inputs; everything else stays compiled in
f = arm.function("inverse_dynamics", parameters=["wrist_3.mass", "wrist_3.com"])
print(f)
dtau_dmass = f.jacobian(wrt="wrist_3_mass")

# measured: torques of 200 motions with an unknown payload
mass, com = 1.27, np.array([0.01, 0.05, -0.02])
q = arm.random_configuration(rng, 200)
v, a = rng.normal(size=(2, 200, 6))
measured = f(q, v, a, mass, com)

# least squares in (mass, com) by Gauss-Newton
both = f.jacobian(wrt=["wrist_3_mass", "wrist_3_com"])
guess = np.array([float(arm.parameter("wrist_3.mass")), *arm.parameter("wrist_3.com")])
for _ in range(8):
    residual = (measured - f(q, v, a, guess[0], guess[1:])).ravel()
    by_mass, by_com = both(q, v, a, guess[0], guess[1:])
    J = np.concatenate([by_mass.reshape(-1, 1), by_com.reshape(-1, 3)], axis=1)
    guess = guess + np.linalg.lstsq(J, residual, rcond=None)[0]
print("payload:", guess.round(9), "kg and m")
assert np.abs(guess - [mass, *com]).max() < 1e-9
assert dtau_dmass(q, v, a, mass, com).shape == (200, 6)
print("checked: the linear model predicts to 1e-6, and the payload is found to 1e-9")
