"""A robot as a model and a coordinate map, with its compiled functions."""
