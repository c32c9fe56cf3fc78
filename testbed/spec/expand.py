"""From an experiment to its runs."""

from __future__ import annotations

from testbed.spec.experiment import Experiment
from testbed.spec.run import Compute, Horizon, RunSpec, Workload


def with_engine(experiment: Experiment, engine: str | None) -> Experiment:
    """The same experiment on another engine, named after both, so that its results have their own folder."""
    if engine is None or engine == experiment.engine:
        return experiment
    return experiment.model_copy(update={"engine": engine, "name": f"{experiment.name}-{engine}"})


def expand(experiment: Experiment) -> list[RunSpec]:
    """One run per seed and algorithm: every algorithm with the first seed, then with the next.

    A sweep that is cut short thus leaves whole comparisons.
    """
    network = experiment.network.network
    compute = experiment.compute
    timing = Compute(compute.step, compute.factors(network.workers), compute.jitter)
    return [
        RunSpec(
            experiment=experiment.name,
            algorithm=choice,
            seed=seed,
            network=network,
            tcp=experiment.network.tcp,
            workload=Workload(**experiment.workload.model_dump()),
            compute=timing,
            horizon=Horizon(**experiment.horizon.model_dump()),
            engine=experiment.engine,
            failures=experiment.failures,
            sim=experiment.sim.flow_model(),
        )
        for seed in experiment.seeds
        for choice in experiment.algorithms
    ]
