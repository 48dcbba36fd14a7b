"""Whole applications; each could leave by moving its folder."""
