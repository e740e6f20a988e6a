"""Lets CloudWatch read the times that the Go SDK sends: seconds with a fraction, which LocalStack treats as an error."""
import datetime

from localstack.runtime import hooks


@hooks.on_infra_start()
def read_fractions_of_seconds():
    from localstack.aws.protocol import parser

    parser.BaseCBORRequestParser._parse_type_datetime = \
        lambda self, value: datetime.datetime.fromtimestamp(value, tz=datetime.UTC)
