"""This memory as a server of the Model Context Protocol, for any client that speaks it.

`offered` says which tools there are, `protocol` puts them into the SDK's terms,
`stdio` and `http` carry them. Whose memory a connection gets is decided by `entry`.
"""

from __future__ import annotations
