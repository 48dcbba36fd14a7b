"""Exports: a tape written for other programs."""
