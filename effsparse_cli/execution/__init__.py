"""Run many independent tasks: in processes of this machine, or on a Ray cluster. `engine.py` is the interface."""
