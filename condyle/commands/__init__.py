"""The commands of the program `condyle`, one file each."""
