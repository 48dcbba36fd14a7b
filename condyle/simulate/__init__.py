"""A robot in a world, in time: actuators, friction, ground, steps, and what is kept of them."""
