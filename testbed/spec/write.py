import json
from testbed.spec.run import RunSpec, to_plain
def write_spec(run: RunSpec) -> str:
    return json.dumps(to_plain(run))
