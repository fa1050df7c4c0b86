"""Settings files, all TOML: the federation file, a member's policy, and the site file of an engine."""
