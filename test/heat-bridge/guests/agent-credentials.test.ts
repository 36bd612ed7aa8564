/** Requests of metadata agents are accepted once. */

import test from 'ava';
import { AgentCredentials, signAgentRequest } from '#guests/metadata-agent/agent-credentials.ts';

const agent = { name: 'net-1', secret: 'a secret of the test' };
const secrets = new Map([[agent.name, agent.secret]]);
const request = { method: 'GET', path: '/bridge/v1/guest/peers', body: new Uint8Array() };
const refused = { code: 'ERR_EAUTH_TOKEN' };

function sign(now: number, instance = 'i-1', project = 'p1'): string {
  return signAgentRequest(agent, { instance, project }, request, now);
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
  const first = new AgentCredentials(secrets, now, (nonce, owner) => other.note(nonce, owner));
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

test('requests of the instances of one project leave nonces to other projects', (t) => {
  const clock = { now: 1_000_000 };
  const credentials = new AgentCredentials(secrets, () => clock.now);
  // The nonces of another member count as those of this one, and need no signatures.
  const use = (instance: string, project: string): unknown =>
    credentials.identify(sign(clock.now, instance, project), request);
  for (let count = 0; count < 100_000; count += 1) {
    credentials.note(`net-1 ${count}`, { instance: `a-${count}`, project: 'a' });
  }
  t.throws(() => use('a-x', 'a'), { code: 'ERR_EAUTH_LIMIT' });
  for (let count = 0; count < 200; count += 1) use('b-1', 'b');
  t.notThrows(() => use('c-1', 'c'));
  clock.now += 120_001;
  t.notThrows(() => use('a-x', 'a'));
});

test('a nonce that another member accepted is stored beyond the limits', (t) => {
  const now = (): number => 1_000_000;
  const credentials = new AgentCredentials(secrets, now);
  const [last = ''] = Array.from({ length: 6_001 }, () => sign(now()))
    .map((header) => {
      const [, name, , nonce] = header.split(';');
      credentials.note(`${name} ${nonce}`, { instance: 'i-1', project: 'p1' });
      return header;
    })
    .slice(-1);
  t.throws(() => credentials.identify(last, request), refused);
});
