"""A service in Python beside a master: it rolls a restart over the web servers of a shop.

Run with what it is to do: ``commands``, ``restart MINION KEY`` or ``roll MINION…``. Prints the answer
as JSON. Exits with 1 and the code of the error where the bridge refuses.
"""

import json
import os
import sys

from saltbridge_bridge import Bridge, BridgeError


def main(what, *names):
    bridge = Bridge(os.environ['SALTBRIDGE_URL'], os.environ['SALTBRIDGE_USER'],
                    os.environ['SALTBRIDGE_PASSWORD'], eauth='file',
                    ca_file=os.environ['SALTBRIDGE_CA'], retries=3)
    if what == 'commands':
        return [command['name'] for command in bridge.commands()]
    if what == 'restart':
        minion, key = names
        # The same key is the same run, also after this process or the master has crashed.
        outcome = bridge.run('web.restart', [minion], idempotency_key=key)
        return {'id': outcome['id'], 'status': outcome['status']}
    if what == 'roll':
        outcome = bridge.run_plan('web.roll', {'servers': names})
        return {'status': outcome['status'],
                'steps': {step['step']: step['status'] for step in outcome['steps']}}
    raise SystemExit('expected commands, restart or roll')


if __name__ == '__main__':
    try:
        print(json.dumps(main(*sys.argv[1:])))
    except BridgeError as error:
        print(json.dumps({'code': error.code, 'message': str(error)}))
        sys.exit(1)
