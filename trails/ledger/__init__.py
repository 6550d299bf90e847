"""What happens around turns and is no part of the chain: inbox, exchanges, events, deliveries."""

from trails.ledger.exchange import Running
from trails.ledger.heads import HeadMove
from trails.ledger.ledger import Ledger

__all__ = ["HeadMove", "Ledger", "Running"]
