"""The closed loop: blocks with named state around a robot, compiled into one kernel."""
