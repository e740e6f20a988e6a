"""Binds the gateway to 127.0.0.1. LocalStack reads a host from GATEWAY_LISTEN but listens on every IPv4 address regardless."""
from localstack.runtime import hooks


@hooks.on_infra_start()
def listen_on_loopback_only():
    from localstack.runtime.server import twisted

    anywhere = twisted.endpoints.TCP4ServerEndpoint
    twisted.endpoints.TCP4ServerEndpoint = lambda reactor, port: anywhere(reactor, port, interface="127.0.0.1")
