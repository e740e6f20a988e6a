"""Lets a stack be updated whose template has a Ref inside Fn::FindInMap, which LocalStack can create but not compare."""
from localstack.runtime import hooks


@hooks.on_infra_start()
def compare_maps():
    from localstack.services.cloudformation.engine.v2.change_set_model import ChangeSetModel, TerminalValue

    literal = ChangeSetModel._resolve_intrinsic_function_fn_find_in_map

    def resolve(self, arguments):
        try:
            return literal(self, arguments)
        except NotImplementedError:  # the keys are the same, as literal has seen, so that only the map can differ
            name = arguments.array[0]
            if not isinstance(name, TerminalValue):
                raise
            return self._retrieve_mapping(mapping_name=name.value).change_type

    ChangeSetModel._resolve_intrinsic_function_fn_find_in_map = resolve
