"""From metric families to sockets."""
