"""Measures of judgement: how often a part of the product decides as it was decided by hand."""
