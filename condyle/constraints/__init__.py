"""Coordinate maps q = gamma(y), v = T(y) w: couplings, closed loops, rolling, and functions written by the user."""
