"""The inner loops of Algorithm 1. Their slow twins are in the tests."""
