"""Settings files in TOML: the federation file, a member's policy, and the site file for NVFlare."""
