"""Controllers: (u, wrenches) of each step from the state, for any robot; noisy sensors; linear-quadratic regulators."""
