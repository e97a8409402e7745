"""How long nothing has been heard of the host at the other end of a connection.

The systems of the two hosts ask and answer each other on an idle connection, so a process that is
stopped, or busy with something else, is not taken for a host that is gone. Only Linux tells when it
heard last; elsewhere the system's own limits end the connection, later.

Source: RFC 9293, section 3.8.4; Linux's tcp(7), TCP_INFO.
"""

import socket
import struct
import sys

ASK_S = 2  # idle for so long: ask, and ask again as often
LAST_HEARD = struct.Struct("=2I")  # milliseconds since data and since an acknowledgement
LAST_HEARD_AT = 52  # in the kernel's `struct tcp_info`


def keep_alive(link: socket.socket) -> None:
    """Have the system ask the other host for a sign of life while the connection is idle."""
    if link.family not in (socket.AF_INET, socket.AF_INET6):
        return
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), ASK_S)


def seconds_of_silence(link: socket.socket) -> float:
    """Return for how long the other host has sent nothing, 0 where the system does not say."""
    if sys.platform != "linux" or link.family not in (socket.AF_INET, socket.AF_INET6):
        return 0.0
    try:
        info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_HEARD_AT + LAST_HEARD.size)
    except OSError:  # closed meanwhile
        return 0.0
    data_ms, acknowledged_ms = LAST_HEARD.unpack_from(info, LAST_HEARD_AT)
    return float(min(data_ms, acknowledged_ms)) / 1000
