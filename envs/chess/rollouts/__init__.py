"""The chess tasks for language models: training, imitation, evaluation and the dry run; combined in `task.py`."""
