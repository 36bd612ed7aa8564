/**
 * A member that does not apply the end of the log is stale, whatever the cause. It rejects minions
 * and tokens until it has applied the end.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { joinCluster } from '#cluster';
import type { MasterOptions } from '#config';
import { type ClusterMaster, ClusterMasters } from '../../helpers/cluster-masters.ts';
import { until } from '../../helpers/deadline.ts';
import { testWhere } from '../../helpers/needs.ts';
import { canMount, mountSmallDisk } from '../../helpers/small-disk.ts';

const login = { username: 'ann', password: 'of-the-test', eauth: 'sharedsecret' };
const staleAfterSeconds = 3;
const onSmallDisk = testWhere(canMount, 'root, who may mount a tmpfs');

interface Members {
  readonly masters: ClusterMasters;
  readonly a: ClusterMaster;
  readonly b: ClusterMaster;
}

/** Starts two members. The second one becomes stale after three seconds. */
async function start(t: ExecutionContext, more: Partial<MasterOptions> = {}): Promise<Members> {
  const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-stale-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const masters = new ClusterMasters(directory, {
    keysize: 2048,
    externalAuth: { sharedsecret: { ann: ['.*', '@runner'] } },
    eauth: { sharedsecret: 'of-the-test' },
  });
  const a = await masters.first('a');
  t.teardown(() => a.master.close());
  const cluster = { name: 'test', nats: ['nats://127.0.0.1:1'], member: 'b', staleAfterSeconds };
  const config = masters.configOf('b', { cluster, ...more });
  const { ticket } = await a.master.cluster.ticket();
  await joinCluster(config, ticket, { connect: masters.connect });
  const b = await masters.start(config);
  t.teardown(() => b.master.close());
  return { masters, a, b };
}

async function isStale({ master }: ClusterMaster): Promise<boolean> {
  return (await master.cluster.status())?.isStale === true;
}

/** Checks that a stale member rejects a token and a request of a minion. */
async function rejectsAll(t: ExecutionContext, b: ClusterMaster, token: string): Promise<void> {
  await t.throwsAsync(b.master.logins.identify(token), { code: 'ERR_EAUTH_TOKEN' });
  await t.throwsAsync(b.ask(Buffer.from('any request')));
}

test('a member whose thread was blocked is stale until it has compared its position again', async (t) => {
  const { b, masters } = await start(t);
  const { token } = await b.master.logins.login(login);
  t.is((await b.master.logins.identify(token)).user, 'ann');
  const compared = Promise.withResolvers<void>();
  const end = performance.now() + 1000 * staleAfterSeconds + 100;
  while (performance.now() < end);
  // From here on, the member could compare its position before the request arrives.
  masters.log.reports = compared.promise;
  masters.log.isQuiet = true;
  const status = b.master.cluster.status();
  const identified = b.master.logins.identify(token);
  const asked = b.ask(Buffer.from('any request'));
  t.true((await status)?.isStale);
  await t.throwsAsync(identified, { code: 'ERR_EAUTH_TOKEN' });
  await t.throwsAsync(asked);
  masters.log.isQuiet = false;
  compared.resolve();
  while (await isStale(b)) await new Promise((resolve) => setTimeout(resolve, 20));
  t.is((await b.master.logins.identify(token)).user, 'ann');
});

onSmallDisk(
  'a member with a full disk becomes stale, and continues when space is available',
  async (t) => {
    const disk = mountSmallDisk(t, 16);
    const { a, b, masters } = await start(t, { stateDir: path.join(disk.directory, 'state') });
    const { token } = await b.master.logins.login(login);
    disk.fill();
    const { position } = (await a.master.cluster.status()) ?? {};
    for (let n = 0; n < 20; n += 1) {
      // The member cannot confirm these writes.
      a.master.logins.login(login).catch(() => {});
      a.master.keys.create({ id: `web${n}`, bits: 2048 }).catch(() => {});
    }
    await until('an entry', () => masters.log.last > (position ?? 0));
    while (!(await isStale(b))) await new Promise((resolve) => setTimeout(resolve, 50));
    await rejectsAll(t, b, token);
    disk.free();
    while (await isStale(b)) await new Promise((resolve) => setTimeout(resolve, 50));
    t.is((await b.master.logins.identify(token)).user, 'ann');
  },
);
