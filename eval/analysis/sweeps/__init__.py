"""Launching sweeps and reading what their runs measured."""

from sparring.configs.core.parts import SweepPlace

SWEEPS = SweepPlace(
    launch="sparring.eval.analysis.sweeps.launch:launch_words",
    names="sparring.eval.analysis.sweeps.file:sweep_files",
    usage="""\
  --multirun     one run per combination of values, as in seed=1,2,3; docs/scaling.md
  +sweep=NAME    all runs of an experiment; docs/sweeps.md""",
    about="""\
+sweep=NAME trains all runs of configs/sweep/NAME.yaml; seed=1,2,3 and runs=A,B choose among them. docs/sweeps.md""",
    flags=("--multirun", "-m"),
)
