/** Rows of transports: what they declare, and what is refused because no row declares it. */

import test from 'ava';
import { deliverResult, parseResultDestination, secretsOf } from '#heat-bridge';
import type { SecrecyOf } from '#heat-bridge/transports/transport.ts';
import { deliverSignal, parseDestination } from '#heat-bridge/transports/transports.ts';

const login = { auth_url: 'http://k/v3', user_id: 'u', password: 'hunter22', project_id: 'p' };

test('the password of every log-in is a secret', (t) => {
  for (const form of [
    { ...login, alarm_url: 'http://heat/signal' },
    { ...login, queue_id: 'q' },
  ]) {
    t.deepEqual(secretsOf(parseDestination(form)), ['hunter22']);
  }
  const inputs = new Map(Object.entries({ ...login, signal_transport: 'HEAT_SIGNAL' }));
  const destination = parseResultDestination((name) => inputs.get(name));
  t.deepEqual(destination && secretsOf(destination), ['hunter22']);
});

test('a row that leaves out the secrecy of a field does not compile', (t) => {
  // @ts-expect-error The password has no secrecy.
  const row: SecrecyOf<{ transport: 'X'; url: string; password: string }> = { url: 'open' };
  t.truthy(row);
});

test('a template cannot choose a transport that is unknown, or chosen by the bridge', (t) => {
  for (const transport of ['HANDLE', 'STATUS', 'TOKEN_SIGNAL', 'WEBHOOK', 'UNKNOWN', 'toString']) {
    const input = (name: string) => (name === 'signal_transport' ? transport : 'http://x/y');
    t.is(parseResultDestination(input), undefined, transport);
  }
});

test('a stored destination of an unknown transport is not delivered, and all of it is secret', async (t) => {
  const destination = { transport: 'UNKNOWN', loft: 'roof', keys: ['a', 'b'] } as never;
  const refused = { kind: 'final', reason: 'this version does not know the transport' } as const;
  t.deepEqual(await deliverSignal({ destination } as never), refused);
  t.deepEqual(await deliverResult({ destination } as never), refused);
  t.deepEqual(secretsOf(destination), ['roof', 'a', 'b']);
});
