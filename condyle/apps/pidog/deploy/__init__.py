"""Deployment: a policy as a program for the robot, with its safety."""
