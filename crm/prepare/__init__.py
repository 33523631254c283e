"""From raw votes to a dataset folder."""
