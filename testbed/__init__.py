"""A WAN and heterogeneity testbed for distributed training, on a virtual clock."""

__version__ = "0.1.0"
