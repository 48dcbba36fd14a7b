"""How people see a robot: pictures and films."""
