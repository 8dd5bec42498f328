"""Every table and figure of the paper as a command: `cairns reproduce NAME --source SOURCE`."""

from cairns.reproduce.experiments import EXPERIMENTS, Experiment, Row

__all__ = ["EXPERIMENTS", "Experiment", "Row"]
