"""The demo robots: each has a simulation, a controller, a recorded run and the checks of that run; `condyle demo` shows five."""
