"""Experiments with arms as files: run, compare, sweep and tune them."""

from condyle.apps.lab.experiment import Experiment as Experiment
from condyle.apps.lab.run import Session as Session
from condyle.apps.lab.run import run_experiment as run_experiment
