"""Compiled functions as operations of other libraries: PyTorch and JAX."""
