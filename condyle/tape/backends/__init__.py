"""Backends: what computes a tape, one file each."""
