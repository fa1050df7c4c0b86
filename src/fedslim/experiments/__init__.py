"""Experiments: declarations of the paper's tables, a runner, and a store for the records.

A cell is one run: data, variant, number of members, partition scheme and seed. Equal cells of two experiments share one
record. The formulas are in `fedslim.metrics`.
"""
