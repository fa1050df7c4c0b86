"""Authentication: a certificate authority (CA), certificates, and mutual TLS.

Private keys never leave their machine. The only source of a peer's name is its certificate.
"""
