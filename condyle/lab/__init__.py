"""Experiments with arms as files: run, compare, sweep and tune them."""

from condyle.lab.experiment import Experiment as Experiment
from condyle.lab.run import Session as Session
from condyle.lab.run import run_experiment as run_experiment
