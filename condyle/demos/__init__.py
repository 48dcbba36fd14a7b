"""Whole machines: a robot, its constraint, its controller, what it does, and everything that can be checked about it."""
