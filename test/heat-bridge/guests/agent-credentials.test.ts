/** Requests of metadata agents are accepted once. */

import test from 'ava';
import { AgentCredentials, signAgentRequest } from '#guests/metadata-agent/agent-credentials.ts';

const agent = { name: 'net-1', secret: 'a secret of the test' };
const secrets = new Map([[agent.name, agent.secret]]);
const request = { method: 'GET', path: '/bridge/v1/guest/peers', body: new Uint8Array() };
const refused = { code: 'ERR_EAUTH_TOKEN' };

function sign(now: number, instance = 'i-1'): string {
  return signAgentRequest(agent, { instance, project: 'p1' }, request, now);
}

test('a request is not accepted again after a restart', (t) => {
  const clock = { now: 1_000_000 };
  const header = sign(clock.now);
  new AgentCredentials(secrets, () => clock.now).identify(header, request);
  clock.now += 1_000;
  const restarted = new AgentCredentials(secrets, () => clock.now);
  t.throws(() => restarted.identify(header, request), refused);
  t.is(restarted.identify(sign(clock.now), request).instance, 'i-1');
});

test('a request is not accepted again at another member of a cluster', (t) => {
  const now = (): number => 1_000_000;
  const other = new AgentCredentials(secrets, now);
  const first = new AgentCredentials(secrets, now, (nonce, instance) =>
    other.note(nonce, instance),
  );
  const header = sign(now());
  first.identify(header, request);
  t.throws(() => other.identify(header, request), refused);
});

test('requests of one instance leave nonces to others', (t) => {
  const now = (): number => 1_000_000;
  const credentials = new AgentCredentials(secrets, now);
  const ask = (instance: string): unknown => credentials.identify(sign(now(), instance), request);
  for (let count = 0; count < 6_000; count += 1) ask('greedy');
  t.throws(() => ask('greedy'), { code: 'ERR_EAUTH_LIMIT' });
  t.notThrows(() => ask('other'));
});
