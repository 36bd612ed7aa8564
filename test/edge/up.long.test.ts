/** The log of a site at its centre, on real sockets: once, in order, over a link that is cut. */

import test, { type ExecutionContext } from 'ava';
import type { MasterEvent } from '#master';
import { EmbeddedMinions } from '../../examples/embedded-minions.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';
import {
  type Centre,
  eventually,
  type StageMaster,
  siteInfo,
  siteStatus,
  startCentre,
  startSite,
} from './edge-stage.ts';
import { SignalProbe } from './signal-source.ts';

/** Collects the events of a master with tags that begin with a text. */
async function collect(
  t: ExecutionContext,
  { server }: StageMaster,
  prefix: string,
): Promise<readonly MasterEvent[]> {
  const events: MasterEvent[] = [];
  const end = new AbortController();
  t.teardown(() => end.abort());
  const stream = await server.master.events.subscribe({}, end.signal);
  void (async () => {
    for await (const event of stream) if (event.tag.startsWith(prefix)) events.push(event);
  })();
  return events;
}

interface Entry {
  readonly kind: string;
  readonly value: Readonly<Record<string, unknown>>;
}

function entriesOf(centre: Centre, query: object): Promise<readonly Entry[]> {
  return centre.rpc('site').call<readonly Entry[]>('entries', query);
}

async function startMinion(t: ExecutionContext, site: StageMaster, id: string): Promise<void> {
  const minions = new EmbeddedMinions();
  t.teardown(() => minions.close());
  const { requestPort } = await site.server.master.status();
  const { connected } = await minions.start({ directory: site.directory, requestPort }, id);
  await connected;
}

test('returns that a site does not store reach the centre too', async (t) => {
  const centre = await startCentre(t);
  const site = await startSite(t, centre, 'north', { autoAccept: true, jobCache: false });
  await startMinion(t, site, 'web1');
  const { jid } = await site.server.master.jobs.publish({ tgt: 'web1', fun: 'test.ping' });
  const query = { name: 'north', jid, kind: 'return' };
  await eventually(async () => (await entriesOf(centre, query)).length > 0);
  const [entry] = await entriesOf(centre, query);
  t.like(entry?.value, { jid, minion: 'web1', fun: 'test.ping', return: true, retcode: 0 });
});

test('returns, facts and audit records of a site reach the centre', async (t) => {
  const centre = await startCentre(t);
  const events = await collect(t, centre, 'saltbridge/site/north/');
  const site = await startSite(t, centre, 'north', { autoAccept: true });
  await startMinion(t, site, 'web1');
  const { jid } = await site.server.master.jobs.publish({ tgt: 'web1', fun: 'test.ping' });
  const query = { name: 'north', jid, kind: 'return' };
  await eventually(async () => (await entriesOf(centre, query)).length > 0);
  const [entry] = await entriesOf(centre, query);
  t.like(entry?.value, { jid, minion: 'web1', fun: 'test.ping', return: true, retcode: 0 });
  await eventually(() => events.some(({ tag }) => tag.endsWith(`salt/job/${jid}/ret/web1`)));
  await eventually(async () => {
    const minions = await Array.fromAsync(centre.rpc('site').stream<{ minion: string }>('minions'));
    return minions.some(({ minion }) => minion === 'web1');
  });
  const audit = await entriesOf(centre, { name: 'north', kind: 'audit' });
  t.true(audit.some(({ value }) => value.action === 'key.accepted'));
});

test('events and alarms are chosen by their tags, and published at the centre', async (t) => {
  const centre = await startCentre(t);
  const site = await startSite(t, centre, 'north', {
    site: { events: ['app/*'], alarms: ['fire/*'] },
  });
  const events = await collect(t, centre, 'saltbridge/site/north/');
  for (const tag of ['other/1', 'app/1', 'fire/1']) {
    await site.server.master.events.fire(tag, { value: tag });
  }
  const chosen = (): readonly string[] =>
    events.map(({ tag }) => tag).filter((tag) => !tag.includes('/audit/'));
  await eventually(() => chosen().length >= 2);
  t.deepEqual(chosen().toSorted(), ['saltbridge/site/north/app/1', 'saltbridge/site/north/fire/1']);
  t.is(events.find(({ tag }) => tag.endsWith('fire/1'))?.data.site, 'north');
});

// EDGE-C3 of docs/consistency.md
test('entries arrive once and in order over a link that is cut while they are sent', async (t) => {
  const centre = await startCentre(t);
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const events = await collect(t, centre, 'saltbridge/site/north/app/');
  const options = { site: { events: ['app/*'] } };
  const url = `http://127.0.0.1:${proxy.port}`;
  const site = await startSite(t, centre, 'north', options, url);
  const count = 3000;
  const cuts = setInterval(() => proxy.mend(), 150);
  t.teardown(() => clearInterval(cuts));
  for (let number = 0; number < count; number += 1) {
    await site.server.master.events.fire('app/number', { number, text: `${number}`.repeat(50) });
    if (number % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  clearInterval(cuts);
  await eventually(async () => (await siteStatus(site)).log.return.entries === 0, 'an empty log');
  t.deepEqual(
    events.map(({ data }) => data.number),
    Array.from({ length: count }, (_, number) => number),
  );
  const { log } = await siteInfo(centre, 'north');
  t.is(log.return?.dropped, 0);
});

test('signals without a handle at the site enter the outbox of the centre once and in order', async (t) => {
  const centre = await startCentre(t, { bridge: {} });
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const url = `http://127.0.0.1:${proxy.port}`;
  const probe = new SignalProbe();
  const options = { bridge: {}, extensions: [probe.extension] };
  const site = await startSite(t, centre, 'north', options, url);
  proxy.cut();
  for (let number = 0; number < 12; number += 1) {
    await probe.intake.accept({
      tag: `heat/ready/m${number}`,
      sender: 'web1',
      data: { status: 'SUCCESS', data: `${number}` },
      request: { mark: `request ${number}`, place: 0 },
    });
  }
  // The minion repeats its last request.
  await probe.intake.accept({
    tag: 'heat/ready/m11',
    sender: 'web1',
    data: { status: 'SUCCESS', data: '11' },
    request: { mark: 'request 11', place: 0 },
  });
  t.deepEqual(await site.server.bridge.outbox.list(), []);
  proxy.mend();
  await eventually(async () => (await siteStatus(site)).log.signal.entries === 0, 'an empty log');
  const held = await centre.server.bridge.outbox.list();
  t.deepEqual(
    held.map(({ member }) => member),
    Array.from({ length: 12 }, (_, number) => `m${number}`),
  );
  t.true(held.every(({ minion, alias }) => minion === 'web1' && alias === 'ready'));
});

test('a signal for a centre without a bridge is refused, and the site reports it', async (t) => {
  const centre = await startCentre(t, { bridge: { handles: false } });
  const probe = new SignalProbe();
  const site = await startSite(t, centre, 'north', { bridge: {}, extensions: [probe.extension] });
  const events = await collect(t, site, 'saltbridge/edge/refused');
  await probe.intake.accept({
    tag: 'heat/ready',
    sender: 'web1',
    data: { status: 'SUCCESS' },
    request: undefined,
  });
  await eventually(() => events.length > 0);
  t.like(events[0]?.data, { class: 'signal', sequence: 1 });
  t.is((await siteInfo(centre, 'north')).log.signal?.refused, 1);
});

// EDGE-C13 of docs/consistency.md
test('a site cannot act for a minion of another site or of the centre', async (t) => {
  const centre = await startCentre(t, { bridge: {} });
  const [north, south] = [new SignalProbe(), new SignalProbe()];
  const signal = {
    tag: 'heat/ready',
    sender: 'web1',
    data: { status: 'SUCCESS' },
    request: undefined,
  };
  await startSite(t, centre, 'north', { bridge: {}, extensions: [north.extension] });
  await north.intake.accept(signal);
  await eventually(async () => (await siteInfo(centre, 'north')).log.signal !== undefined);
  await startSite(t, centre, 'south', { bridge: {}, extensions: [south.extension] });
  await south.intake.accept(signal);
  await eventually(async () => (await siteInfo(centre, 'south')).log.signal !== undefined);
  t.is((await siteInfo(centre, 'north')).log.signal?.refused, 0);
  t.is((await siteInfo(centre, 'south')).log.signal?.refused, 1);
  t.is((await centre.server.bridge.outbox.list()).length, 1);
});
