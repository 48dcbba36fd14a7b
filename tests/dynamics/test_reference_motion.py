"""Reference forces are M a_r + C v_r + g with the skew-symmetric C, and their regressor multiplies the masses."""

import numpy as np
from dynamics.random_robots import random_model, random_state
from hypothesis import given, settings
from hypothesis import strategies as st

from condyle.dynamics.coriolis import coriolis_matrix
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.reference_motion import reference_forces, reference_regressor
from condyle.dynamics.regressor import inertial_parameters, inverse_dynamics_regressor
from condyle.dynamics.rnea import gravity_forces

# both sides are sums of the same terms in another order
SAME_FORMULA = 1e-12


def floats(x: object) -> np.ndarray:
    return np.asarray(x, dtype=float)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_reference_forces_and_their_regressor(seed: int) -> None:
    model, rng = random_model(seed, joints=7), np.random.default_rng(seed)
    q, v, a_r = random_state(model, rng)
    v_r = rng.normal(size=model.nv)
    C = floats(coriolis_matrix(model, q, v))
    expected = floats(mass_matrix(model, q)) @ a_r + C @ v_r + floats(gravity_forces(model, q))
    scale = SAME_FORMULA * np.abs(expected).max()
    np.testing.assert_allclose(floats(reference_forces(model, q, v, v_r, a_r)), expected, rtol=0.0, atol=scale)
    armature = np.concatenate([np.full(link.kind.nv, link.armature) for link in model.links])
    Y = floats(reference_regressor(model, q, v, v_r, a_r))
    np.testing.assert_allclose(Y @ inertial_parameters(model) + armature * a_r, expected, rtol=0.0, atol=scale)
    # at the actual velocity it is the regressor of inverse dynamics
    plain = floats(inverse_dynamics_regressor(model, q, v, a_r))
    np.testing.assert_allclose(
        floats(reference_regressor(model, q, v, v, a_r)), plain, rtol=0.0, atol=1e-12 * np.abs(plain).max()
    )
