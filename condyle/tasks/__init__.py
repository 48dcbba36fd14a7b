"""Tasks to learn: robots with their sensors, rewards, randomisation and scores, by name."""
