"""cairns: discover an object's landmarks from unlabelled images."""

__version__ = "0.1.0"
