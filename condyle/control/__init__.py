"""What people do with a robot: controllers."""
