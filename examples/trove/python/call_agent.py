"""Calls methods of GuestAgent: a JSON array [minion, request id, method, arguments] on each line.

Answers each with a line: ``{"return": …, "runs": [outcome…]}`` or ``{"error": [code, message]}``.
SALTBRIDGE_URL, SALTBRIDGE_CA, SALTBRIDGE_USER and SALTBRIDGE_PASSWORD say whom to ask and as whom.
"""

import json
import os
import sys

from saltbridge_bridge import Bridge, BridgeError
from trove_guestagent import GuestAgent, GuestError


def main() -> None:
    bridge = Bridge(os.environ['SALTBRIDGE_URL'], os.environ['SALTBRIDGE_USER'],
                    os.environ['SALTBRIDGE_PASSWORD'], eauth='file',
                    ca_file=os.environ['SALTBRIDGE_CA'], retries=3, timeout=300)
    for line in sys.stdin:
        print(json.dumps(_answer(bridge, *json.loads(line))), flush=True)


def _answer(bridge, minion, request_id, method, arguments):
    runs = []
    agent = GuestAgent(bridge, minion, request_id, lambda _method, run_id: runs.append(run_id))
    try:
        value = getattr(agent, method)(**arguments)
        # A cast is over when its run is; Trove would hear of it from its conductor.
        return {'return': value, 'runs': [bridge.wait(it) for it in runs]}
    except BridgeError as error:
        return {'error': [error.code, str(error)]}
    except GuestError as error:
        return {'error': ['GuestError', str(error)]}


if __name__ == '__main__':
    main()
