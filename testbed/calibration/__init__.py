"""How far the simulated network is off: the same runs on both engines, and probes of what a flow model gets wrong.

This room says what to run. Runs are carried out by the engines, compared by `testbed.analysis.calibration` and
kept by `testbed.record.calibration`.
"""
