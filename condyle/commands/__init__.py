"""The commands of the program `condyle`, one file for each or for two that belong together."""
