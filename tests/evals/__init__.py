"""Measures of judgement: how often a part of the product decides as people did."""
