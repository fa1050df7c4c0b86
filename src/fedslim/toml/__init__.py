"""TOML files whose keys are declared."""
