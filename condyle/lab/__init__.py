"""Experiments with arms as files: run, compare, sweep and tune them."""
