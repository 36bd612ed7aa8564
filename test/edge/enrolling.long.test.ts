/** Signals of sites for machines that the centre itself enrols. */

import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { startCentre } from './edge-stage.ts';
import { batchOf, entryOf, joinRaw, RawLink } from './raw-site.ts';

const certificate = fileURLToPath(new URL('../fixtures/tls/master.pem', import.meta.url));

/** Endpoint that refuses connections, so that signals stay in the outbox. */
const endpoint = 'http://127.0.0.1:9/signal';

/** Starts a centre that enrols machines, and connects one site. */
async function stage(t: ExecutionContext) {
  const enroll = { masters: ['127.0.0.1'], url: 'https://127.0.0.1', certificate };
  const handles = { endpoints: ['http://127.0.0.1:9'] };
  const centre = await startCentre(t, { bridge: { enroll, handles } });
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  const { bridge } = centre.server;
  return {
    bridge,
    enrol: () => bridge.enroll.create({ id: 'vm1', project: 'p1', by: 'claim' }),
    register: () =>
      bridge.handles.add({
        alias: 'ready',
        minions: ['vm1'],
        signal: { endpoint, token: 'tOken' },
      }),
    send: async (kind: 'minion' | 'signal', value: Parameters<typeof entryOf>[2]) => {
      const name = kind === 'signal' ? 'log.signal' : 'log.fact';
      if (kind === 'minion') await link.ask('log.turn', {});
      const reply = await link.ask(name, batchOf([entryOf(1, kind, value)]));
      t.is(reply.kind, 'reply');
    },
  };
}

const signal = {
  id: 'x',
  tag: 'heat/ready',
  minion: 'vm1',
  data: { status: 'SUCCESS', data: 'forged' },
};

test('a site cannot act for a machine that the centre enrols', async (t) => {
  const { bridge, enrol, register, send } = await stage(t);
  // The site claims the id first.
  await send('minion', { minion: 'vm1', present: true });
  t.is((await enrol()).enrolment.state, 'open');
  await register();
  await send('signal', signal);
  t.deepEqual(await bridge.outbox.list(), []);
});

test('a signal that a site sent before an enrolment does not count for its machine', async (t) => {
  const { bridge, enrol, register, send } = await stage(t);
  await send('signal', signal);
  t.is((await bridge.outbox.list()).length, 1);
  await enrol();
  await register();
  const [entry] = await bridge.outbox.list();
  t.is(entry?.state, 'dead');
});
