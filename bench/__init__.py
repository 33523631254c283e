"""Speed of training and scoring against named peers, measured in one run, in alternation."""
