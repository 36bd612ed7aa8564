/** Requests of machines through a metadata agent: claims with a ticket, reports and signals. */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import {
  type AgentInstance,
  agentHeader,
  signAgentRequest,
} from '#guests/metadata-agent/agent-credentials.ts';
import type { ApiAnswer } from '../../helpers/salt-api.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { fingerOf } from '../enroll/stage.ts';
import {
  codeOf,
  everyGuest,
  type GuestStage,
  type GuestStageOptions,
  startGuests,
} from './stage.ts';

const secret = 'the secret of the agent of these networks';
const one = { instance: 'i-1', project: 'p1' };
const two = { instance: 'i-2', project: 'p1' };

interface Stage extends GuestStage {
  /** Sends a body for an instance, like an agent does. */
  post(where: string, asking: AgentInstance, body: object): Promise<ApiAnswer>;
  claim(asking: AgentInstance, ticket: string, id: string, more?: object): Promise<ApiAnswer>;
}

async function start(t: ExecutionContext, more: GuestStageOptions = {}): Promise<Stage> {
  const file = path.join(temporaryDirectory(t), 'agent.secret');
  writeFileSync(file, secret, { mode: 0o600 });
  const stage = await startGuests(t, {
    guests: { agents: { 'net-1': { secret_file: file } } },
    ...more,
  });
  const post: Stage['post'] = (where, asking, body) => {
    const text = JSON.stringify(body);
    const request = { method: 'POST', path: `/bridge/v1/guest/${where}`, body: Buffer.from(text) };
    const signed = signAgentRequest({ name: 'net-1', secret }, asking, request, stage.clock.now);
    const headers = { [agentHeader]: signed, 'content-type': 'text/plain' };
    return stage.call({ method: 'POST', path: request.path, headers, body: text });
  };
  const claim: Stage['claim'] = (asking, ticket, id, given = {}) =>
    post('enroll/claim', asking, { ticket, id, fingerprint: fingerOf('minion'), ...given });
  return { ...stage, post, claim };
}

test('a machine claims with its ticket and the facts found by the agent, and both must agree', async (t) => {
  const { bridge, post, claim } = await start(t);
  const open = await bridge.enroll.create({
    id: 'web-1',
    project: 'p1',
    agent: true,
    masters: ['169.254.169.254'],
  });
  t.regex(open.userData, /saltbridge\/v1\/enroll/);
  t.notRegex(open.userData, /url='https/);
  const foreign = await claim({ ...one, project: 'p2' }, open.ticket, 'web-1');
  t.deepEqual([foreign.status, codeOf(foreign)], [403, 'ERR_TICKET_BOUND']);
  const claimed = await claim(one, open.ticket, 'web-1', { instance: 'says another' });
  t.is(claimed.status, 200);
  t.false('token' in Object(claimed.json));
  const { number } = open.enrolment;
  t.like(await bridge.enroll.show(number), { state: 'accepted', instance: one.instance });
  // From now on, the agent's requests for this instance have the rights of its minion.
  t.is((await post('signals?alias=x', two, {})).status, 404);
  const second = await bridge.enroll.create({ id: 'web-2', project: 'p1', agent: true });
  const again = await claim(one, second.ticket, 'web-2');
  t.deepEqual([again.status, codeOf(again)], [409, 'ERR_ENROLL_TAKEN']);
  t.is((await claim(two, second.ticket, 'web-2')).status, 200);
});

test('a ticket for an instance, or for the identity given by a relay, is refused for others', async (t) => {
  const { bridge, post, claim, call } = await start(t);
  const bound = await bridge.enroll.create({
    id: 'web-1',
    ...one,
    address: 'instance:p1/i-1',
    agent: true,
  });
  const { ticket } = bound;
  t.is(codeOf(await claim(two, ticket, 'web-1', { instance: 'i-1' })), 'ERR_TICKET_BOUND');
  const report = { ticket, id: 'web-1', reason: 'no reason' };
  t.is(codeOf(await post('enroll/failure', two, report)), 'ERR_TICKET_BOUND');
  const body = { ticket, id: 'web-1', fingerprint: fingerOf('minion'), instance: 'i-1' };
  const alone = { method: 'POST', path: '/bridge/v1/guest/enroll/claim', body } as const;
  t.is((await call({ ...alone, headers: { 'content-type': 'application/json' } })).status, 401);
  t.is((await claim(one, ticket, 'web-1')).status, 200);
  const next = await bridge.enroll.create({ id: 'web-2', ...two, agent: true });
  const failed = { ticket: next.ticket, id: 'web-2', reason: 'no salt-minion' };
  t.is((await post('enroll/failure', two, failed)).status, 200);
  t.like(await bridge.enroll.show(next.enrolment.number), { state: 'failed' });
});

test('without url and certificate under enroll, machines behind agents are still enrolled', async (t) => {
  const { bridge, claim } = await start(t, { more: { enroll: { masters: ['192.0.2.1'] } } });
  const request = { id: 'web-1', project: 'p1' };
  await t.throwsAsync(bridge.enroll.create(request), { code: 'ERR_ENROLL_OFF' });
  const { ticket } = await bridge.enroll.create({ ...request, agent: true });
  t.is((await claim(one, ticket, 'web-1')).status, 200);
  const windows = { ...request, id: 'w', agent: true, format: 'cloudbase-init' } as const;
  await t.throwsAsync(bridge.enroll.create(windows), { code: 'ERR_ENROLL_ARGS' });
});

test('a guest sends permitted signals through the agent, or with its token', async (t) => {
  const rule = allow('signals', {
    subject: { minion: 'web-*' },
    action: 'signal',
    resource: { tag: 'heat/web*' },
  });
  const { bridge, post, guest, call, store } = await start(t, { rules: [everyGuest, rule] });
  const { id, token } = await guest('web-1', one);
  await guest('other', two);
  const signal = { status: 'SUCCESS', data: 'ready' };
  t.is((await post('signals?alias=web', one, signal)).status, 200);
  const request = { method: 'POST', path: '/bridge/v1/guest/signals?alias=web-2' } as const;
  const headers = { 'x-auth-token': token, 'content-type': 'text/plain' };
  // JavaScript would round this number.
  const body = '{"status": "SUCCESS", "data": {"bytes": 9007199254740993}}';
  t.is((await call({ ...request, headers, body })).status, 200);
  const held = await bridge.outbox.list();
  t.deepEqual(held.map(({ minion, alias }) => [minion, alias]).sort(), [
    [id, 'web'],
    [id, 'web-2'],
  ]);
  const stored: string[] = [];
  for await (const { value } of store.list([])) stored.push(Buffer.from(value).toString('latin1'));
  t.true(stored.some((it) => it.includes('9007199254740993')));
  t.is((await post('signals?alias=web', two, signal)).status, 403);
  t.is((await post('signals?alias=db', one, signal)).status, 403);
  t.is(codeOf(await post('signals?alias=web', one, { status: 'OTHER' })), 'ERR_HANDLE_UNKNOWN');
  t.is(codeOf(await post('signals?alias=web', one, ['x'])), 'ERR_HANDLE_FORM');
  t.is((await call({ ...request, headers: {}, body: '{}' })).status, 401);
  const many = await Promise.all(
    Array.from({ length: 150 }, () => post('signals?alias=db', one, {})),
  );
  t.true(many.some(({ status }) => status === 429));
});
