"""Public sets that experiments read, as sources of an extension."""
