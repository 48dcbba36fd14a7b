"""Backends: each computes a tape, in one file that implements the interface (interface.py)."""
