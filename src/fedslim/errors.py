"""The exceptions of fedslim. Every message says what is wrong, where, and what to do next.

The command line maps them to exit codes: 2 for bad input, 1 for a failed run.
"""

from __future__ import annotations


class FedslimError(Exception):
    """Base class of all fedslim exceptions."""

    exit_code = 1


class InputError(FedslimError, ValueError):
    """User input cannot be used: a file, a field or a parameter."""

    exit_code = 2


class DataError(InputError):
    """A data file or table cannot be read; the message names file, line and field."""


class WriteError(DataError):
    """A result cannot be written: the disk is full, or the folder is missing or not writable. The input was fine."""

    exit_code = 1


class CodeTableError(InputError):
    """A code table file has the wrong format or an unknown version, or is damaged."""


class ParameterError(InputError):
    """A parameter has an invalid value; the message names it and the allowed values."""


class ConfigurationError(InputError):
    """A federation file cannot be used; the message names the file, the key and the allowed values."""


class PolicyError(InputError):
    """A member's policy does not allow what the federation file says; the message names both keys."""


class LedgerError(InputError):
    """A member's ledger cannot be used, or does not allow answers in a run with these members."""


class MissingExtraError(FedslimError, ImportError):
    """An optional dependency is needed; the message says how to install it."""

    exit_code = 2


class RunError(FedslimError, RuntimeError):
    """A run started but could not be finished."""


class JournalError(InputError):
    """A journal cannot be continued: it is missing, damaged, or belongs to another run."""


class SecureAggregationError(RunError):
    """A masked sum cannot be computed, or must not be used."""


class RingError(SecureAggregationError):
    """A value or a sum does not fit its ring."""


class KeyAgreementError(SecureAggregationError):
    """Two members cannot agree on a secret: a key is malformed, weak, or not the peer's own."""


class MaskReuseError(SecureAggregationError):
    """A mask would be used twice, which would reveal the difference of two answers."""


class ProtocolError(RunError):
    """A peer sent an invalid message, or one not allowed now; the message names the state, the message and the peer."""


class FrameError(ProtocolError):
    """Received bytes are not a message: truncated, too large or malformed."""


class LineError(RunError):
    """A connection to a peer is closed, or too slow."""


class CertificateError(DataError):
    """A key, request, certificate or revocation list cannot be used; the message names the file or the field."""


class UntrustedError(RunError):
    """A peer cannot prove its identity, or is not allowed to do what it does."""
