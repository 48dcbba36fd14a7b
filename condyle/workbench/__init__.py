"""What people look at and connect: runs, views, other programs, the doctor, other engines."""
