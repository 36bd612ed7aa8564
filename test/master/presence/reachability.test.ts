/** Reachability of minions over real sockets. A connection alone does not prove it. */

import { connect, createServer } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { type MasterOptions, resolveMasterConfig } from '#config';
import { createSilentLogger, type ExtensionHost, type Master } from '#master';
import type { JobDispatcher } from '#master/jobs/dispatcher.ts';
import { Reachability } from '#master/jobs/reachability.ts';
import {
  createMinion,
  dialZeromq,
  type Minion,
  type MinionFunction,
  type WireValue,
} from '#minion-protocol';
import { createMaster } from '#server';
import { createMemoryStore, type Store } from '#store';
import { freePort } from '../../../bench/free-port.ts';
import { collect } from '../../helpers/fleet.ts';
import { minionKeys } from '../../helpers/rsa-keys.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, writeMasterKeys } from '../../helpers/vector-master.ts';
import { eventually } from '../../interop/eventually.ts';

interface Stage {
  readonly master: Master;
  readonly host: ExtensionHost;
}

interface Site {
  readonly requestPort: number;
  readonly store: Store;
  /** Starts a master. A second call continues with the state of the first master. */
  start(): Promise<Stage>;
  /**
   * Starts a minion.
   * @param port - default: the port of the master
   */
  join(id: string, more?: { port?: number; ping?: MinionFunction }): Promise<Minion>;
}

async function openSite(t: ExecutionContext, options: Partial<MasterOptions> = {}): Promise<Site> {
  const directory = temporaryDirectory(t);
  const [requestPort, publishPort] = [await freePort(), await freePort()];
  const config = resolveMasterConfig({
    ...directories(directory),
    interface: '127.0.0.1',
    retPort: requestPort,
    publishPort,
    autoAccept: true,
    gatherJobTimeout: 2,
    ...options,
  });
  writeMasterKeys(config.pkiDir);
  const store = createMemoryStore();
  const ids = new Set<string>();
  return {
    requestPort,
    store,
    start: async () => {
      let host: ExtensionHost | undefined;
      const probe = {
        name: 'probe',
        open: async (given: ExtensionHost) => {
          host = given;
          return {};
        },
      };
      const master = createMaster({ config, store, extensions: [probe] });
      t.teardown(() => master.close());
      await master.start();
      if (host === undefined) throw new Error('the extension was not opened');
      return { master, host };
    },
    join: async (id, { port = requestPort, ping = () => true } = {}) => {
      const transport = dialZeromq({ host: '127.0.0.1', requestPort: port });
      const keys = minionKeys([...ids.add(id)].indexOf(id));
      const minion = createMinion({ id, transport, keys, functions: { 'test.ping': ping } });
      t.teardown(() => minion.stop());
      await minion.start();
      return minion;
    },
  };
}

async function idsPresent({ master }: Stage): Promise<readonly string[]> {
  return (await master.presence()).map(({ id }) => id);
}

test('an idle minion is reachable after a restart of the master, before it makes a request', async (t) => {
  t.timeout(60_000);
  const site = await openSite(t);
  const first = await site.start();
  let pings = 0;
  const ping = (): boolean => {
    pings += 1;
    return true;
  };
  await site.join('web1', { ping });
  t.true(await first.host.isReachable('web1'));
  await first.master.close();
  const pingsBefore = pings;
  const second = await site.start();
  t.deepEqual(await idsPresent(second), []);
  await eventually('web1 to answer', () => second.host.isReachable('web1'));
  t.true(pings > pingsBefore);
});

test('questions that are asked together are one publication, and a recent response counts', async (t) => {
  const published: (readonly string[])[] = [];
  const dispatcher: Pick<JobDispatcher, 'closing' | 'publishUnstored'> = {
    closing: new AbortController().signal,
    publishUnstored: async ({ tgt }, onReturn) => {
      const ids = [tgt].flat();
      published.push(ids);
      for (const minion of ids) {
        const result = { fun: 'test.ping', success: true, retcode: 0, return: true };
        onReturn({ minion, ...result, receivedAt: 0 });
      }
      return () => {};
    },
  };
  const reachability = new Reachability({
    dispatcher,
    isAccepted: (id) => id !== 'unknown',
    waitMs: () => 60_000,
    log: createSilentLogger(),
  });
  const isReachable = (id: string): Promise<boolean> => reachability.isReachable(id);
  t.deepEqual(await Promise.all(['web1', 'web2', 'web1', 'unknown'].map(isReachable)), [
    true,
    true,
    true,
    false,
  ]);
  t.true(await isReachable('web1'));
  t.deepEqual(published, [['web1', 'web2']]);
});

test('a batch and manage.up ask an idle minion after a restart of the master', async (t) => {
  t.timeout(60_000);
  const site = await openSite(t);
  const first = await site.start();
  await site.join('web1');
  t.true(await first.host.isReachable('web1'));
  await first.master.close();
  const { master } = await site.start();
  const up = async (): Promise<WireValue> =>
    (await master.runners.run({ fun: 'manage.up' })).return;
  await eventually('web1 to be up', async () => isDeepStrictEqual(await up(), ['web1']));
  const updates = await collect(master.jobs.batch({ tgt: '*', fun: 'test.ping', size: 1 }));
  t.deepEqual(
    updates.flatMap((update) => (update.type === 'return' ? [update.minion] : [])),
    ['web1'],
  );
});

test('a dead minion behind a shared address is down, and a batch does not wait for it', async (t) => {
  t.timeout(60_000);
  const site = await openSite(t);
  const { master } = await site.start();
  await site.join('web1');
  await (await site.join('web2')).stop();
  const listed = async (fun: string): Promise<WireValue> =>
    (await master.runners.run({ fun, kwarg: { timeout: 2, gather_job_timeout: 2 } })).return;
  t.deepEqual(await listed('manage.up'), ['web1']);
  t.deepEqual(await listed('manage.down'), ['web2']);
  const updates = await collect(master.jobs.batch({ tgt: '*', fun: 'test.ping', size: 1 }));
  t.deepEqual(
    updates.flatMap((update) => (update.type === 'return' ? [update.minion] : [])),
    ['web1'],
  );
});

test('a dead minion behind a shared address is not mistaken for a living one', async (t) => {
  const site = await openSite(t);
  const stage = await site.start();
  await site.join('web1');
  const dead = await site.join('web2');
  await dead.stop();
  // Both minions had this address, and one of its connections is left.
  t.deepEqual(await idsPresent(stage), ['web1', 'web2']);
  await eventually('the end of a connection', async () => {
    const listed = await stage.master.minions();
    return listed.every(({ isPresent, isUnsure }) => isPresent && isUnsure === true);
  });
  const { host } = stage;
  const asked = ['web1', 'web2', 'web1', 'gone'].map((id) => host.isReachable(id));
  t.deepEqual(await Promise.all(asked), [true, false, true, false]);
});

test('a minion is reachable if its requests come from another address than its subscription', async (t) => {
  const site = await openSite(t);
  const stage = await site.start();
  // The option `source_address` has this effect.
  const { requestPort } = site;
  const proxy = createServer((client) => {
    const upstream = connect({ host: '127.0.0.1', port: requestPort, localAddress: '127.0.0.2' });
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) socket.on('error', () => socket.destroy());
    client.on('close', () => upstream.destroy());
  });
  const port = await freePort();
  await new Promise<void>((resolve) => {
    proxy.listen(port, '127.0.0.1', resolve);
  });
  t.teardown(() => proxy.close());
  await site.join('web1', { port });
  t.deepEqual(await idsPresent(stage), []);
  t.true(await stage.host.isReachable('web1'));
});

test('a minion that subscribes after one question answers the next one', async (t) => {
  const site = await openSite(t, { gatherJobTimeout: 20 });
  const { host } = await site.start();
  const minion = await site.join('web1');
  await minion.stop();
  const answer = host.isReachable('web1');
  await site.join('web1');
  t.true(await answer);
});

test('questions are not listed as jobs', async (t) => {
  const site = await openSite(t);
  const { host, master } = await site.start();
  const ids = ['web1', 'web2', 'web3'];
  await Promise.all(ids.map((id) => site.join(id)));
  t.deepEqual(await Promise.all(ids.map((id) => host.isReachable(id))), [true, true, true]);
  t.deepEqual(await master.jobs.list(), []);
});
