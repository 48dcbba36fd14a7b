"""Command lines run in this process: the runner of Typer, with the commands of a program built once instead of for every line."""

from functools import cache

from typer import testing

testing._get_command = cache(testing._get_command)
CliRunner = testing.CliRunner
