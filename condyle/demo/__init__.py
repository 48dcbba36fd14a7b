"""The demonstration behind `condyle demo`: a chaotic system on a million lanes, and a table of checks with their numbers."""
