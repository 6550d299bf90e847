"""What happens around turns and is no part of the chain: inbox, exchanges, events, deliveries."""

from trails.runtime.ledger.exchanges import HeadMove, Running
from trails.runtime.ledger.ledger import Ledger

__all__ = ["HeadMove", "Ledger", "Running"]
