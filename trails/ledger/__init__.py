"""What happens around turns and is no part of the chain: inbox, exchanges, events, deliveries."""
