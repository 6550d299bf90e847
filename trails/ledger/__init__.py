"""What happens around turns and is no part of the chain: inbox, exchanges, events, deliveries."""

from trails.ledger.heads import HeadMove
from trails.ledger.ledger import Ledger
from trails.ledger.running import Running

__all__ = ["HeadMove", "Ledger", "Running"]
