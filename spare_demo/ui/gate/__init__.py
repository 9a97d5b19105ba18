"""What stands between strangers and the page: small ASGI layers, each with one job."""

from __future__ import annotations

from starlette.middleware import Middleware

from spare_demo.settings import Settings
from spare_demo.ui.gate.doors import close_doors, limit_size, trust_hosts
from spare_demo.ui.gate.fair_share import share_fairly
from spare_demo.ui.gate.health import answer_health
from spare_demo.ui.gate.idle_streams import end_idle_streams
from spare_demo.ui.gate.refusals import word_refusals
from spare_demo.ui.gate.sweeper import Sweeper


def layers(settings: Settings) -> list[Middleware]:
    """The layers of a page with these settings, the outermost first."""
    listed = [Middleware(Sweeper)]
    if settings.private:
        listed.append(Middleware(trust_hosts, hosts=(settings.host, *settings.trusted_hosts)))
    listed += [Middleware(each) for each in (answer_health, word_refusals, close_doors)]
    listed.append(Middleware(limit_size, most_bytes=settings.max_request_bytes))
    if not settings.private:
        # Through gradio.live without a header, all visitors come from one address: the tunnel's.
        alike = settings.share and not settings.address_header
        most = settings.queue_size if alike else settings.max_waiting
        places, header = settings.queue_size, settings.address_header
        listed.append(Middleware(share_fairly, most=most, most_of_all=places, header=header))
    return [*listed, Middleware(end_idle_streams)]
