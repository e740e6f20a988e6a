"""DynamoDB from the jars that localstack/install.sh downloaded from Maven, on the java of $PATH; LocalStack would download its own elsewhere."""
import os

from localstack.runtime import hooks


@hooks.on_infra_start()
def use_local_jars():
    from localstack.services.dynamodb import packages, server

    def command(self):
        jars, launcher = os.environ["NODELEASE_DDB_JARS"], os.environ["NODELEASE_DDB_LAUNCHER"]
        command = ["java", f"-Xmx{self.heap_size}", f"-Djava.library.path={jars}", "-cp", f"{jars}/*", launcher]
        command += ["-port", str(self.port), "-disableTelemetry"]
        command += ["-inMemory"] if self.in_memory else ["-dbPath", self.db_path]
        return command + (["-sharedDb"] if self.share_db else [])

    server.DynamodbServer._create_shell_command = command
    packages.DynamoDBLocalPackageInstaller.install = lambda self, target=None: None
    packages.DynamoDBLocalPackageInstaller.get_java_env_vars = lambda self: {}
