"""Sources of preferences: public sets, files of one's own, a simulation."""
