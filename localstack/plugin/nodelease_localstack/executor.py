"""LocalStack's Lambda executor that runs functions as processes: LAMBDA_RUNTIME_EXECUTOR=process."""
from localstack import config
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from .sandbox import Sandbox


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    name = "process"

    def load(self, *args, **kwargs):
        return ProcessExecutor


class ProcessExecutor(RuntimeExecutor):
    sandbox = None

    def start(self, env_vars):
        self.env = env_vars
        self.sandbox = Sandbox(str(self.function_version.config.code.get_unzipped_code_location()), env_vars)
        self.sandbox.ready.result(config.LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT)

    def stop(self):
        if self.sandbox and self.sandbox.alive():
            self.sandbox.stop()

    def invoke(self, payload):
        if not self.sandbox.alive():  # it crashed or timed out before: another cold start, as in Lambda
            self.start(self.env)
        return self.sandbox.invoke(payload, self.function_version.config.timeout)

    def get_address(self):
        return "127.0.0.1"

    get_endpoint_from_executor = get_address

    def get_runtime_endpoint(self):
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}/_unused/{self.id}"

    def get_logs(self):
        return "".join(self.sandbox.lines) if self.sandbox else ""

    @classmethod
    def prepare_version(cls, function_version):
        if function_version.config.code:
            function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version):
        pass
