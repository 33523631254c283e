"""The reader of own words: its sentences, its training, and what it understands."""
