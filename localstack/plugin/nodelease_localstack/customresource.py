"""Custom resources for LocalStack's CloudFormation, which otherwise skips them and reports success.

Does what CloudFormation does: sends the function an event, and waits for what it puts at the event's ResponseURL, here a server on 127.0.0.1.
"""
import json
import queue
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer

from localstack.services.cloudformation.resource_provider import (
    CloudFormationResourceProviderPlugin, OperationStatus, ProgressEvent, ResourceProvider)


class CustomResourcePlugin(CloudFormationResourceProviderPlugin):
    name = "AWS::CloudFormation::CustomResource"  # LocalStack looks Custom::Anything up under this name

    def load(self):
        self.factory = CustomResource


class Answers(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_PUT(self):
        self.server.answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


class CustomResource(ResourceProvider):
    TYPE = CustomResourcePlugin.name
    SCHEMA = {"primaryIdentifier": ["/properties/PhysicalResourceId"]}
    physical_ids = {}  # LocalStack passes only the properties

    def create(self, request):
        return self.ask(request, "Create")

    def update(self, request):
        return self.ask(request, "Update", OldResourceProperties=request.previous_state)

    def delete(self, request):
        return self.ask(request, "Delete")

    def ask(self, request, kind, **more):
        from localstack.aws.connect import connect_to

        server = HTTPServer(("127.0.0.1", 0), Answers)
        server.answers = queue.Queue()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        key = (request.stack_id, request.logical_resource_id)
        event = {
            "RequestType": kind,
            "RequestId": str(uuid.uuid4()),
            "ResponseURL": "http://127.0.0.1:%d/answer" % server.server_address[1],
            "StackId": f"arn:aws:cloudformation:{request.region_name}:{request.account_id}:stack/{request.stack_name}/{request.stack_id}",
            "ResourceType": request.resource_type,
            "LogicalResourceId": request.logical_resource_id,
            "ResourceProperties": request.desired_state,
        } | more
        if key in self.physical_ids:
            event["PhysicalResourceId"] = self.physical_ids[key]
        try:
            connect_to(aws_access_key_id=request.account_id, region_name=request.region_name).lambda_.invoke(
                FunctionName=request.desired_state["ServiceToken"], InvocationType="Event", Payload=json.dumps(event))
            answer = server.answers.get(timeout=int(request.desired_state.get("ServiceTimeout", 3600)))
        except queue.Empty:
            return ProgressEvent(status=OperationStatus.FAILED, resource_model={}, message="the function did not answer in time")
        finally:
            server.shutdown()
            server.server_close()
        if answer["Status"] != "SUCCESS":
            return ProgressEvent(status=OperationStatus.FAILED, resource_model={}, message=answer.get("Reason", "no reason"))
        self.physical_ids[key] = answer["PhysicalResourceId"]
        model = request.desired_state | (answer.get("Data") or {}) | {"PhysicalResourceId": answer["PhysicalResourceId"]}
        return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=model)
