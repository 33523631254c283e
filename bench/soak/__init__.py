"""Everything at once for an hour: servers under load, kills, full disks, nonsense. `make soak`; see `__main__`."""
