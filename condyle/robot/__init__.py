"""The robot as data: descriptions from files or code, checked, and built into a Model."""
