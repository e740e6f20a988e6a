"""Runs parliament on every IAM policy of the given templates, and fails on any finding."""
import json
import sys

from parliament import analyze_policy_string

# The resources that the policies refer to, as ARNs, which parliament expects.
ARNS = {
    "AWS::DynamoDB::GlobalTable": "arn:aws:dynamodb:us-east-1:111111111111:table/example",
    "AWS::Logs::LogGroup": "arn:aws:logs:us-east-1:111111111111:log-group:example:log-stream:example",
    "AWS::SQS::Queue": "arn:aws:sqs:us-east-1:111111111111:example",
}


def plain(value, resources):
    """The value without CloudFormation's functions."""
    if isinstance(value, list):
        return [plain(v, resources) for v in value]
    if not isinstance(value, dict):
        return value
    if "Fn::GetAtt" in value:
        return ARNS.get(resources[value["Fn::GetAtt"][0]]["Type"], "example")
    if "Ref" in value:
        return {"AWS::Region": "us-east-1", "AWS::AccountId": "111111111111", "AWS::Partition": "aws"}.get(value["Ref"], "example")
    if "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return separator.join(plain(parts, resources))
    if "Fn::ImportValue" in value:
        return ARNS["AWS::DynamoDB::GlobalTable"] if "Arn" in value["Fn::ImportValue"] else "example"
    if any(k.startswith("Fn::") for k in value):
        return "example"
    return {k: plain(v, resources) for k, v in value.items()}


def main(paths):
    policies = findings = 0
    for path in paths:
        resources = json.load(open(path))["Resources"]
        for name, resource in resources.items():
            if resource["Type"] not in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
                continue
            document = plain(resource["Properties"]["PolicyDocument"], resources)
            policies += 1
            for finding in analyze_policy_string(json.dumps(document)).findings:
                # CDK gives a task's execution role the one action that knows no resources.
                if "ecr:GetAuthorizationToken" in str(finding):
                    continue
                findings += 1
                print(f"{path}: {name}: {finding}")
    print(f"{policies} policies, {findings} findings")
    return 1 if findings or not policies else 0


sys.exit(main(sys.argv[1:]))
