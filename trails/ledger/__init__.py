"""What happens around turns and is no part of the chain: inbox, exchanges, events, deliveries."""

from trails.ledger.ledger import Ledger

__all__ = ["Ledger"]
