"""Pictures, videos, web players and a live viewer of robots, runs and simulations.

The software renderer (picture, video) needs no graphics card, the player is one HTML page without a server, and the window is a
live connection between a browser and the running program.
"""
