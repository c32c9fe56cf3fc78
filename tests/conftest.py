"""For all rings: torch held to the compute service's instruction set, so that results are equal bit for bit."""

from testbed.compute.arithmetic import hold_arithmetic

hold_arithmetic()
