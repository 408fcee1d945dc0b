"""Run many independent tasks in worker processes, with limits on memory and time."""
