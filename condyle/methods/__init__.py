"""What people do with a simulation: control, planning, model-predictive control, learning, identification."""
