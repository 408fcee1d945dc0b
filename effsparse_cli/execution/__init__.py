"""How many independent tasks run: in worker processes, with limits on memory and time."""
