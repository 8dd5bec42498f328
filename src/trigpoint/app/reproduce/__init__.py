"""Every table and figure of the paper as a command: `trigpoint reproduce NAME --source SOURCE`."""

from trigpoint.app.reproduce.experiments import EXPERIMENTS, Experiment, Row

__all__ = ["EXPERIMENTS", "Experiment", "Row"]
