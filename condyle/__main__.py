"""`python -m condyle` is the command `condyle`."""

from condyle.cli import main

if __name__ == "__main__":
    main()
