"""What stands between strangers and the page: small ASGI layers, each with one refusal."""

from __future__ import annotations

from starlette.middleware import Middleware

from spare_demo.settings import Settings
from spare_demo.ui.gate.doors import ClosedDoors, RequestSize, TrustedHosts
from spare_demo.ui.gate.fair_share import FairShare
from spare_demo.ui.gate.health import Health
from spare_demo.ui.gate.refusals import Refusals
from spare_demo.ui.gate.sweeper import Departures, Sweeper


def layers(settings: Settings) -> list[Middleware]:
    """The layers of a page with these settings, the outermost first."""
    listed = [Middleware(Sweeper), Middleware(Departures), Middleware(Health), Middleware(Refusals)]
    if settings.private:
        listed.append(Middleware(TrustedHosts, hosts=(settings.host, *settings.trusted_hosts)))
    listed += [Middleware(ClosedDoors), Middleware(RequestSize, most=settings.max_request_bytes)]
    if not settings.private:
        # Through gradio.live without a header, all visitors come from one address: the tunnel's.
        alike = settings.share and not settings.address_header
        most = settings.queue_size if alike else settings.max_waiting
        places, header = settings.queue_size, settings.address_header
        listed.append(Middleware(FairShare, most=most, most_of_all=places, header=header))
    return listed
