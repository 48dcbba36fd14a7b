"""PiDog: its legs, servos, poses, gaits and controller, as data and plain functions."""
