/** Signals from a minion's request to a service, through a complete master. */

import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { connectExtension, connectMaster } from '#client';
import { resolveMasterConfig } from '#config';
import { createBridge } from '#guests';
import type { HandleInfo, OutboxEntry } from '#heat-bridge';
import { readAuditLog } from '#master';
import type { WireMap } from '#minion-protocol';
import { createSaltApi } from '#salt-api';
import { connectMinion, otherKey } from '../../helpers/connected-minion.ts';
import { type ApiAnswer, json, password, send } from '../../helpers/salt-api.ts';
import {
  directories,
  type StoredKey,
  startVectorMaster,
  type VectorMaster,
} from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys } from '../../helpers/vectors.ts';
import { always, type Recorder, startRecorder } from './recorder.ts';

const startEvent = recorded('minion_event', 'start event v3');
const acl = {
  signals: [],
  rules: [
    allow('handles', {
      subject: { minion: '*' },
      action: 'signal',
      resource: { tag: 'heat/*' },
    }),
  ],
  mode: 'enforce',
  learnActions: [],
  recordData: false,
} as const;

async function open(
  t: ExecutionContext,
  more: {
    readonly limits?: object;
    readonly isPermitted?: boolean;
    readonly keys?: readonly StoredKey[];
  } = {},
) {
  const service: Recorder = await startRecorder(always(200, 'null'));
  t.teardown(() => service.close());
  const bridge = createBridge();
  const { limits, isPermitted = true } = more;
  const config = {
    bridge: { handles: { endpoints: [service.origin], same_id_wait: 0 } },
    ...(isPermitted ? { acl } : {}),
    ...(limits === undefined ? {} : { limits }),
  };
  const master = await startVectorMaster(t, {
    config,
    extensions: [bridge],
    ...(more.keys === undefined ? {} : { keys: more.keys, startAt: Date.now() }),
  });
  const signal = { endpoint: `${service.origin}/signal`, token: 'tOken' };
  const add = { alias: 'ready', minions: [keys.minionId], signal };
  return { service, bridge, master, add };
}

/**
 * Sends an event as the recorded minion.
 * @returns whether the reply is Salt's
 */
async function fire(
  { ask }: VectorMaster,
  data: WireMap,
  nonce: string = freshNonce(),
): Promise<boolean> {
  const load = { tag: 'heat/ready', data, nonce };
  return openReply(startEvent, await ask(altered(startEvent, { load })), nonce) === null;
}

test('a permitted signal of a minion reaches the handle, once for each request', async (t) => {
  const { service, bridge, master, add } = await open(t);
  await bridge.handles.add(add);
  const nonce = freshNonce();
  const answers = [await fire(master, { data: 1 }, nonce), await fire(master, { data: 1 }, nonce)];
  t.deepEqual(answers, [true, true]);
  t.true(await fire(master, { data: 2 }));
  const requests = await service.heard(2);
  t.deepEqual(
    requests.map(({ body }) => JSON.parse(body)),
    [1, 2].map((data) => ({ status: 'SUCCESS', data, id: keys.minionId })),
  );
});

test('an embedded minion learns the id of its signal, but no ids of other events', async (t) => {
  const { bridge, master, add } = await open(t, { keys: [otherKey('m2')] });
  await bridge.handles.add({ ...add, minions: ['m2'] });
  const minion = await connectMinion(t, master, 'm2');
  const held = await minion.fire('heat/later', {});
  const id = await minion.fire('heat/ready', { data: 1 });
  t.deepEqual(
    (await bridge.outbox.list()).map((entry) => entry.id).filter((it) => it === held),
    [held],
  );
  t.regex(id ?? '', /^[\w-]{32}$/);
  t.regex((await minion.fire('heat/ready', { status: 'ODD' })) ?? '', /^[\w-]{32}$/);
  t.is(await minion.fire('salt/beacon/m2/load/', {}), undefined, 'no signal');
});

test('a reload applies all endpoints of handles or none', async (t) => {
  const { service, bridge, master, add } = await open(t);
  const reload = (handles: object | null) =>
    master.master.reload(
      resolveMasterConfig({
        ...directories(master.directory),
        acl,
        bridge: handles === null ? null : { handles: { same_id_wait: 0, ...handles } },
      }),
    );
  const isListed = async (): Promise<boolean> => (await bridge.handles.show('ready')).isListed;
  await bridge.handles.add(add);
  t.true(await isListed());
  const { applied, needRestart } = await reload({ endpoints: ['https://heat.example.org'] });
  t.deepEqual(applied, ['saltbridge:bridge:handles:endpoints']);
  t.deepEqual(needRestart, []);
  t.false(await isListed());
  const more = { endpoints: [service.origin], per_minion: 7 };
  t.deepEqual((await reload(more)).needRestart, ['saltbridge:bridge']);
  t.true(await isListed());
  await t.throwsAsync(reload({ endpoints: ['no address'] }), {
    code: 'ERR_BRIDGE_OPTIONS',
  });
  await t.throwsAsync(reload({ endpoints: [{ url: 'https://a.test', ca_file: '/nowhere' }] }), {
    code: 'ERR_BRIDGE_OPTIONS',
  });
  // The bridge is added and removed by restarts of the master.
  t.deepEqual((await reload(null)).applied, []);
  t.true(await isListed());
  t.true(await fire(master, { data: 1 }));
  t.is((await service.heard(1)).length, 1);
  await reload({});
  t.false(await isListed());
});

test('a signal that no rule permits does not reach the outbox', async (t) => {
  const { bridge, master, add } = await open(t, { isPermitted: false });
  await bridge.handles.add(add);
  t.true(await fire(master, {}));
  t.deepEqual(await bridge.outbox.list(), []);
  t.is((await master.counters())['signal-default-deny'], 1);
});

test('signals for a handle over the rate are delayed and delivered, and other events are dropped', async (t) => {
  const limits = { eventsPerSecond: 50, burst: 1, requestsPerSecond: 0 };
  const { service, bridge, master, add } = await open(t, { limits });
  await bridge.handles.add(add);
  await Promise.all([1, 2, 3, 4, 5].map((data) => fire(master, { data })));
  t.is((await service.heard(5)).length, 5);
  const counters = await master.counters();
  t.true((counters['signal-delayed'] ?? 0) >= 3);
  t.is(counters['event-rate'], undefined);
});

test('signals of one minion over the limit get no reply, so that the minion repeats them', async (t) => {
  const limits = { eventsPerSecond: 100, burst: 1, requestsPerSecond: 0 };
  const { bridge, master, add } = await open(t, { limits });
  await bridge.handles.add(add);
  const asked = Array.from({ length: 100 }, () => fire(master, {}).catch(() => false));
  await Promise.all(asked);
  t.true(((await master.counters())['signal-rate'] ?? 0) > 0);
});

test('handles and outbox are served at the local socket, and audited', async (t) => {
  const { service, master, add } = await open(t);
  const { socket = '' } = directories(master.directory);
  const bridge = connectExtension({ socketPath: socket }, 'bridge');
  const info = await bridge.call<HandleInfo>('handles.add', { registration: add });
  t.like(info, { alias: 'ready', transport: 'TOKEN_SIGNAL', isListed: true });
  t.deepEqual(await bridge.call('handles.show', { alias: 'ready' }), info);
  t.deepEqual(await bridge.call('handles.list'), [info]);
  await t.throwsAsync(bridge.call('handles.add', { registration: add }), {
    code: 'ERR_HANDLE_EXISTS',
  });
  service.answer = always(403, 'no');
  await fire(master, {});
  await service.heard(1);
  let dead: readonly OutboxEntry[] = [];
  while (dead.length === 0) dead = await bridge.call('outbox.list', { isDead: true });
  t.is(dead[0]?.reason, 'answered 403: no');
  service.answer = always(200);
  t.is((await bridge.call<readonly unknown[]>('outbox.retry', {})).length, 1);
  await service.heard(2);
  let delivered: readonly OutboxEntry[] = [];
  while (delivered.length === 0) {
    delivered = await bridge.call('outbox.list', { isDelivered: true });
  }
  t.like(delivered[0], { alias: 'ready', state: 'delivered', httpStatus: 200, id: dead[0]?.id });
  t.is(dead[0]?.httpStatus, 403);
  const { extensions = {} } = await connectMaster({ socketPath: socket }).status();
  t.like(extensions.bridge, {
    'outbox_signals waiting': 0,
    'outbox_signals dead': 0,
    outbox_delivered_total: 1,
    outbox_dead_total: 1,
    'enrolments open': 0,
    command_runs: 0,
  });
  t.deepEqual(await bridge.call('outbox.drop', {}), []);
  t.deepEqual(await bridge.call('handles.remove', { alias: 'ready' }), info);
});

test('an invalid option of handles ends the start, with its key', async (t) => {
  for (const handles of [
    { endpoint: [] },
    { endpoints: ['heat'] },
    { endpoints: ['ftp://heat'] },
    { endpoints: [{ url: 'https://heat', addresses: ['10.0.0.0/8', 'heat'] }] },
    { timeout: 'long' },
  ]) {
    const config = { bridge: { handles } };
    await t.throwsAsync(startVectorMaster(t, { config, extensions: [createBridge()] }), {
      code: 'ERR_BRIDGE_OPTIONS',
      message: /^saltbridge:bridge:handles/,
    });
  }
});

// Handles and the outbox over HTTP. A handle is visible only to the caller who registered it.

const secret = 'tOken-of-the-handle';
const registration = {
  alias: 'ready',
  minions: [keys.minionId],
  signal: { endpoint: 'http://127.0.0.1:1/signal', token: secret },
};
const rule = allow('registers', {
  subject: { user: 'tr*' },
  action: 'command',
  resource: { fun: 'bridge.handle.add', within: keys.minionId },
});

async function openRoutes(t: ExecutionContext) {
  const bridge = createBridge();
  const { master, directory } = await startVectorMaster(t, {
    startAt: Date.now(),
    extensions: [bridge],
    config: {
      externalAuth: { sharedsecret: { trove: ['test.*'], trust: ['test.*'], sahara: ['test.*'] } },
      eauth: { sharedsecret: password },
      acl: { rules: [rule] },
    },
  });
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  /** Returns a function that sends requests such as `GET handles` as a user. */
  const as = async (username: string) => {
    const { token } = await master.logins.login({ username, password, eauth: 'sharedsecret' });
    return (request: string, body?: object): Promise<ApiAnswer> => {
      const [method = '', path = ''] = request.split(' ');
      const headers = body === undefined ? { 'x-auth-token': token } : json(token);
      return send(port, { method, path: `/bridge/v1/${path}`, headers, body });
    };
  };
  const audited = async (): Promise<readonly string[]> => {
    await master.audit.flush();
    const lines: string[] = [];
    for await (const { who, action, what, rule } of readAuditLog(directories(directory))) {
      if (/^(handle|outbox)/.test(action)) {
        lines.push(`${who.kind} ${who.name} ${action} ${what} ${rule}`);
      }
    }
    return lines;
  };
  return { bridge, port, as, audited };
}

function codeOf({ status, json: answer }: ApiAnswer): unknown {
  const { error } = Object(answer);
  return [status, Object(error).code];
}

test('a user with the right can register a handle, and the reply contains none of its secrets', async (t) => {
  const { as, audited, bridge } = await openRoutes(t);
  const trove = await as('trove');
  const added = await trove('POST handles', registration);
  t.is(added.status, 200);
  t.like(added.json, { alias: 'ready', owner: 'user:sharedsecret:trove' });
  t.deepEqual((await trove('GET handles')).json, [added.json]);
  t.deepEqual((await trove('GET handles/ready')).json, added.json);
  t.deepEqual((await trove('GET handles/ready/outbox')).json, []);
  t.is((await trove('PUT handles/ready', { ...registration, stack: 's2' })).status, 200);
  t.is((await bridge.handles.show('ready')).stack, 's2');
  const texts = ['handles', 'handles/ready'].map((path) => trove(`GET ${path}`));
  for (const { text } of await Promise.all(texts)) t.false(text.includes(secret));
  t.is((await trove('DELETE handles/ready')).status, 200);
  t.deepEqual(await audited(), [
    'user trove handle.add ready registers',
    'user trove handle.add ready registers',
    'user trove handle.remove ready own-handle',
  ]);
  t.deepEqual((await trove('GET handles')).json, []);
});

test('the handle of another user looks unknown, and cannot be replaced', async (t) => {
  const { as } = await openRoutes(t);
  const [trove, trust] = [await as('trove'), await as('trust')];
  await trove('POST handles', registration);
  t.deepEqual((await trust('GET handles')).json, []);
  for (const request of [
    'GET handles/ready',
    'DELETE handles/ready',
    'GET handles/ready/outbox',
    'DELETE handles/ready/outbox',
    'POST handles/ready/outbox/retry',
  ]) {
    const body = request.startsWith('POST') ? {} : undefined;
    t.deepEqual(codeOf(await trust(request, body)), [404, 'ERR_HANDLE_UNKNOWN'], request);
  }
  t.deepEqual(codeOf(await trust('PUT handles/ready', registration)), [409, 'ERR_HANDLE_EXISTS']);
  t.is((await trove('GET handles/ready')).status, 200);
});

test('a handle requires a rule for its minions and a token', async (t) => {
  const { as, port, bridge } = await openRoutes(t);
  const [trove, sahara] = [await as('trove'), await as('sahara')];
  t.deepEqual(codeOf(await sahara('POST handles', registration)), [403, 'ERR_DENIED']);
  const others = { ...registration, minions: [keys.minionId, 'other'] };
  t.deepEqual(codeOf(await trove('POST handles', others)), [403, 'ERR_DENIED']);
  const everybody = { ...registration, globs: ['*'] };
  t.deepEqual(codeOf(await trove('POST handles', everybody)), [403, 'ERR_DENIED']);
  t.deepEqual(codeOf(await trove('POST handles', { alias: 'x' })), [400, 'ERR_HANDLE_FORM']);
  t.deepEqual(codeOf(await trove('POST handles', [registration])), [400, 'ERR_HANDLE_FORM']);
  const nobody = await send(port, {
    method: 'POST',
    path: '/bridge/v1/handles',
    headers: json(),
    body: registration,
  });
  t.deepEqual(codeOf(nobody), [401, 'ERR_EAUTH_TOKEN']);
  t.deepEqual(await bridge.handles.list(), []);
});
