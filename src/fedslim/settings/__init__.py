"""Settings files, all TOML: the federation file, a member's policy, and the member file of an engine."""
