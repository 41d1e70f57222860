"""The protocol of the stock client, sans-IO: frames in, commands out; events in, frames out. No socket, no clock."""
