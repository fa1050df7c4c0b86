"""The exception tree of fedslim. Every message says what is wrong, where, and what to do next.

The command line maps these to exit codes: bad input ends with 2, a run that failed with 1.
"""

from __future__ import annotations


class FedslimError(Exception):
    """Base of everything fedslim raises on purpose."""

    exit_code = 1


class InputError(FedslimError, ValueError):
    """Something the user handed in cannot be used: a file, a field, a parameter."""

    exit_code = 2


class DataError(InputError):
    """A data file or table cannot be read; the message names file, line and field."""


class WriteError(DataError):
    """A result cannot be written: the disk is full, the folder is gone or not ours. The input was fine."""

    exit_code = 1


class CodeTableError(InputError):
    """A code table file is not one of ours, is damaged, or is of a version we do not know."""


class ParameterError(InputError):
    """A parameter has a value that makes no sense; the message names it and the values allowed."""


class ConfigurationError(InputError):
    """A federation's file cannot be used; the message names file, key and what is allowed there."""


class PolicyError(InputError):
    """A member's own policy does not allow what a federation agreed on; the message names both keys."""


class LedgerError(InputError):
    """A member's ledger cannot be used, or does not allow that these members are answered."""


class MissingExtraError(FedslimError, ImportError):
    """An optional dependency is needed; the message says how to install it."""

    exit_code = 2


class RunError(FedslimError, RuntimeError):
    """A run started and could not be finished."""


class JournalError(InputError):
    """A journal cannot be continued: it is not there, damaged, or of another run."""


class SecureAggregationError(RunError):
    """A masked sum cannot be made, or must not be used."""


class RingError(SecureAggregationError):
    """A value or a sum does not fit the ring it was promised to fit."""


class KeyAgreementError(SecureAggregationError):
    """Two members cannot agree on a secret: a key is malformed, weak, or somebody else's."""


class MaskReuseError(SecureAggregationError):
    """A mask would be used a second time, which would give the difference of two answers away."""


class MembershipError(SecureAggregationError):
    """A sum has a contribution missing, twice, or from somebody who is not a member of the round."""


class ProtocolError(RunError):
    """A peer said something that it may not say, or not now; the message names state, message and peer."""


class FrameError(ProtocolError):
    """Bytes that are no message: cut short, too large, or not made by us."""


class LineError(RunError):
    """A line to a peer is closed, or too slow."""


class CertificateError(DataError):
    """A key, request, certificate or revocation list cannot be used; the message names the file or the field."""


class UntrustedError(RunError):
    """A peer cannot show that it is who it says it is, or may not do what it does."""
