"""The client's half of the protocol, without sockets, clocks or tasks: frames in, frames to send and state out.

`chat.ChatProtocol` follows one chat, `agent.AgentProtocol` one agent of any kind, and `stream_joiner.StreamJoiner` one
turn over server-sent events. The asyncio clients in `everyword.client` connect them to a socket; the tests and the
simulation drive them directly.
"""
