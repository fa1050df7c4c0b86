"""Carry a run over a network or within one process: frames, connections, journals. All decisions are in `protocol`."""
