"""Authentication: a certificate authority (CA), certificates, and mutual TLS.

Private keys never leave their machine. The only source of a peer's name is its certificate.
"""

from __future__ import annotations

from fedslim.trust.authority import Authority, Signed
from fedslim.trust.enrolment import DemoCa, Requested, install, install_list, make_demo_ca, make_renewal, make_request
from fedslim.trust.identity import Identity, Statement, TrustStore, read_trust
from fedslim.trust.names import Role
from fedslim.trust.tls import RevocationWatch, client_context, explain, peer_name, refresh, server_context

__all__ = [
    "Authority",
    "DemoCa",
    "Identity",
    "Requested",
    "RevocationWatch",
    "Role",
    "Signed",
    "Statement",
    "TrustStore",
    "client_context",
    "explain",
    "install",
    "install_list",
    "make_demo_ca",
    "make_renewal",
    "make_request",
    "peer_name",
    "read_trust",
    "refresh",
    "server_context",
]
