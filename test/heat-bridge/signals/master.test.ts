/** From a minion's request to a service, through a whole master. */
import test, { type ExecutionContext } from 'ava';
import { allow } from '../../../acl/index.ts';
import { connectExtension } from '../../../client/index.ts';
import type { HandleInfo, OutboxEntry } from '../../../heat-bridge/index.ts';
import { createBridge } from '../../../heat-bridge/index.ts';
import type { WireMap } from '../../../minion-protocol/index.ts';
import { directories, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
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
  more: { readonly limits?: object; readonly isPermitted?: boolean } = {},
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
  const master = await startVectorMaster(t, { config, extensions: [bridge] });
  const signal = { endpoint: `${service.origin}/signal`, token: 'tOken' };
  const add = { alias: 'ready', minions: [keys.minionId], signal };
  return { service, bridge, master, add };
}

/** Sends an event as the recorded minion does. @returns whether it was answered as Salt answers */
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

test('a signal that no rule permits does not reach the outbox', async (t) => {
  const { bridge, master, add } = await open(t, { isPermitted: false });
  await bridge.handles.add(add);
  t.true(await fire(master, {}));
  t.deepEqual(await bridge.outbox.list(), []);
  t.is((await master.counters())['signal-default-deny'], 1);
});

test('signals for a handle over the rate wait and arrive; other events are dropped', async (t) => {
  const limits = { eventsPerSecond: 50, burst: 1, requestsPerSecond: 0 };
  const { service, bridge, master, add } = await open(t, { limits });
  await bridge.handles.add(add);
  await Promise.all([1, 2, 3, 4, 5].map((data) => fire(master, { data })));
  t.is((await service.heard(5)).length, 5);
  const counters = await master.counters();
  t.true((counters['signal-delayed'] ?? 0) >= 3);
  t.is(counters['event-rate'], undefined);
});

test('more than may wait of one minion is left unanswered, so that it comes again', async (t) => {
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
  t.deepEqual(await bridge.call('outbox.drop', {}), []);
  t.deepEqual(await bridge.call('handles.remove', { alias: 'ready' }), info);
});

test('an option of handles that is none ends the start, with its key', async (t) => {
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
