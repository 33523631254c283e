"""Public sets of votes; what they share is in `pairs`."""
