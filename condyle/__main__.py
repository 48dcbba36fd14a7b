"""`python -m condyle` is the command `condyle`."""

from condyle.commands.main import main

if __name__ == "__main__":
    main()
