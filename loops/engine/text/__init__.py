"""Texts of any script, by Unicode alone: words, cuts, and patterns in linear time."""
