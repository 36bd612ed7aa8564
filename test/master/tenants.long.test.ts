/**
 * Two tenants in one process, with minions of the same ids. Neither can see anything of the other
 * through any interface. Each test also checks that the tenant's own minion gets the data.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import type { MasterApi, MasterEvent } from '#master';
import { isWireMap, type WireMap, type WireValue, wireBytes } from '#minion-protocol';
import { within } from '../helpers/deadline.ts';
import { collect } from '../helpers/fleet.ts';
import { SpeakingMinion } from '../helpers/speaking-minion.ts';
import { keyOf, minionIds, startTenants, type TenantUnderTest } from '../helpers/tenant.ts';

/** The packed text `bad load`. */
const badLoad = 'a8626164206c6f6164';

/**
 * Runs `test.reported` on all minions.
 * @returns the jid, and the returns by id
 */
async function tellAll(api: MasterApi): Promise<{ jid: string; returns: object }> {
  const returns: Record<string, unknown> = {};
  let jid = '';
  for (const update of await collect(api.jobs.run({ tgt: '*', fun: 'test.reported' }))) {
    if (update.type === 'published') jid = update.jid;
    if (update.type === 'return') returns[update.minion] = update.return;
  }
  return { jid, returns };
}

function returnsOf({ secret }: TenantUnderTest): object {
  return Object.fromEntries(minionIds.map((id) => [id, `${secret} from ${id}`]));
}

/** Returns the events on a master's bus while some work runs. */
async function eventsDuring(api: MasterApi, work: () => Promise<void>): Promise<MasterEvent[]> {
  const events: MasterEvent[] = [];
  const end = new AbortController();
  const reading = (async () => {
    for await (const event of await api.events.subscribe({}, end.signal)) events.push(event);
  })();
  await work();
  end.abort();
  await within('the end of events', reading);
  return events;
}

test("a key of one tenant's minion is unknown to the other", async (t) => {
  const { red, blue } = await startTenants(t);
  const before = await blue.master.keys.list();
  const own = new SpeakingMinion(t, 'web1', keyOf(red, 'web1'), await red.master.status());
  t.is(await own.signIn(), 'accepted');
  const stranger = new SpeakingMinion(t, 'web1', keyOf(red, 'web1'), await blue.master.status());
  t.not(await stranger.signIn(), 'accepted');
  const accepted = (await blue.master.keys.list()).filter(({ state }) => state === 'accepted');
  const mine = ({ id, fingerprint }: (typeof before)[number]): string => `${id} ${fingerprint}`;
  t.deepEqual(accepted.map(mine), before.map(mine));
  t.is((await red.master.keys.list()).length, minionIds.length);
});

test('a request with keys of one tenant is refused by the other', async (t) => {
  const { red, blue } = await startTenants(t);
  const speaker = await red.speak(t, 'web1');
  const other = await blue.speak(t, 'web1');
  const events = await eventsDuring(blue.master, async () => {
    for (const load of [
      { cmd: '_minion_event', tag: 'minion_start', data: {} },
      { cmd: '_pillar', grains: {}, ver: '2' },
    ]) {
      const { bytes } = speaker.session.seal(load);
      t.is((await other.askSealed(bytes)).toString('hex'), badLoad);
    }
    // For comparison, the same request with the tenant's own keys is accepted.
    await other.ask({ cmd: '_minion_event', tag: 'minion_start', data: {} });
  });
  t.deepEqual(
    events.map(({ tag }) => tag),
    ['minion_start'],
  );
});

test('minions of one tenant cannot decrypt publications to the other', async (t) => {
  const { red, blue } = await startTenants(t);
  const [own, other] = [await blue.speak(t, 'db1'), await red.speak(t, 'db1')];
  const { publishPort } = await blue.master.status();
  const heard: Uint8Array[] = [];
  await other.transport.subscribe(publishPort, null, (envelope) => heard.push(envelope));
  const listening = async (): Promise<void> => {
    while (heard.length === 0) await tellAll(blue.master);
  };
  await within('the stranger to listen', listening());
  for (const envelope of heard) {
    t.throws(() => other.session.openPublication(envelope), { code: 'ERR_BAD_SIGNATURE' });
    t.like(own.session.openPublication(envelope), { fun: 'test.reported' });
  }
});

test('jobs, returns and events of one tenant are visible only there', async (t) => {
  const { red, blue } = await startTenants(t);
  const seen = await eventsDuring(red.master, async () => {
    const events = await eventsDuring(blue.master, async () => {
      // The jobs are published one after the other, because in the same millisecond both would get
      // the same jid.
      const [here, there] = [await tellAll(red.master), await tellAll(blue.master)];
      t.deepEqual(here.returns, returnsOf(red));
      t.deepEqual(there.returns, returnsOf(blue));
      t.is((await red.master.jobs.show(here.jid)).jid, here.jid);
      await t.throwsAsync(red.master.jobs.show(there.jid), { code: 'ERR_JOB_UNKNOWN' });
      // This is a return for the other tenant's job, by a minion whose id exists there.
      const speaker = await red.speak(t, 'web1');
      await speaker.ask({ cmd: '_return', jid: there.jid, fun: 'test.reported', return: 'forged' });
      const { returns } = await blue.master.jobs.show(there.jid);
      t.false(JSON.stringify(returns).includes('forged'));
      await speaker.ask({ cmd: '_minion_event', tag: 'red/done', data: { secret: red.secret } });
    });
    t.false(JSON.stringify(events).includes(red.secret));
    t.true(JSON.stringify(events).includes(blue.secret));
  });
  t.true(seen.some(({ tag }) => tag === 'red/done'));
  t.false(JSON.stringify(seen).includes(blue.secret));
  const lists = await Promise.all([red, blue].map(({ master }) => master.jobs.list()));
  const [here = [], there = []] = lists.map((jobs) => jobs.map(({ jid }) => jid));
  t.deepEqual(
    here.filter((jid) => there.includes(jid)),
    [],
  );
});

test('pillar, files, the mine and peers are separate for each tenant', async (t) => {
  const { red, blue } = await startTenants(t);
  for (const [tenant, other] of [
    [red, blue],
    [blue, red],
  ] as const) {
    const [web, db] = [await tenant.speak(t, 'web1'), await tenant.speak(t, 'db1')];
    t.deepEqual(await web.pillar(), { secret: `${tenant.secret} for web1` });
    t.is(await fileOf(web, 'secret.txt'), tenant.secret);
    for (const file of [
      `../../${other.name}/files/secret.txt`,
      path.join(other.root, 'files/secret.txt'),
    ]) {
      t.is(await fileOf(web, file), '', file);
    }
    await web.ask({ cmd: '_mine', data: { whose: tenant.secret } });
    const mine = await db.ask({ cmd: '_mine_get', tgt: '*', fun: 'whose', tgt_type: 'glob' });
    t.deepEqual(mine, { web1: tenant.secret });
    const listed = await web.ask({ cmd: 'minion_runner', fun: 'jobs.list_jobs', arg: [] });
    t.false(JSON.stringify(listed).includes(other.secret));
  }
  const speaker = await red.speak(t, 'web1');
  const load = { cmd: 'minion_publish', tgt: '*', tmo: 10, form: 'clean' };
  const reply = await speaker.ask({ ...load, fun: 'test.reported', arg: [], ret: '' });
  t.deepEqual(asMap(reply), returnsOf(red));
  t.deepEqual([...red.reported].sort(), [...minionIds].sort());
  t.deepEqual(blue.reported, []);
});

async function fileOf(minion: SpeakingMinion, file: string): Promise<string> {
  const load = { cmd: '_serve_file', path: file, saltenv: 'base', loc: 0 };
  const { data } = asMap(await minion.ask(load));
  return Buffer.from(wireBytes(data) ?? []).toString();
}

function asMap(value: WireValue): WireMap {
  return isWireMap(value) ? value : {};
}

test('policy, denials, presence and the local socket belong to one tenant', async (t) => {
  const { red, blue } = await startTenants(t);
  const fire = (speaker: SpeakingMinion, tag: string): Promise<unknown> =>
    speaker.ask({ cmd: '_minion_event', tag, data: {} });
  const [here, there] = [await red.speak(t, 'web1'), await blue.speak(t, 'web1')];
  const events = await eventsDuring(blue.master, async () => {
    await fire(here, 'red/done');
    await fire(there, 'red/done');
    await fire(there, 'blue/done');
  });
  t.deepEqual(
    events.map(({ tag }) => tag),
    ['saltbridge/denied/web1', 'blue/done'],
  );
  t.deepEqual(await red.local.events.denials(), []);
  t.is((await blue.local.events.denials()).length, 1);
  const prints = async (api: MasterApi): Promise<string[]> =>
    [...(await api.keys.list()), ...(await api.keys.local())].map((it) => it.fingerprint);
  t.deepEqual(await prints(red.local), await prints(red.master));
  const others = new Set(await prints(blue.local));
  for (const print of await prints(red.local)) t.false(others.has(print));
  await blue.local.keys.delete({ match: '*' });
  t.deepEqual(
    (await red.local.keys.list()).map(({ state }) => state),
    ['accepted', 'accepted'],
  );
  t.deepEqual((await red.local.presence()).map(({ id }) => id).sort(), [...minionIds].sort());
  const leaving = async (): Promise<void> => {
    while ((await blue.local.presence()).length > 0);
  };
  await within('the others to be gone', leaving());
});

test('closing one tenant leaves the other running', async (t) => {
  const { red, blue } = await startTenants(t);
  await red.master.close();
  t.deepEqual((await tellAll(blue.local)).returns, returnsOf(blue));
  await t.throwsAsync(red.local.status());
});

test('files and log of one tenant contain no data of the other', async (t) => {
  const { red, blue } = await startTenants(t);
  for (const { master } of [red, blue]) await tellAll(master);
  for (const [tenant, other] of [
    [red, blue],
    [blue, red],
  ] as const) {
    const store = filesIn(tenant.root).filter((file) => file.includes('/store/'));
    const hasIn = (files: readonly string[], text: string): boolean =>
      files.some((file) => readFileSync(file).includes(text));
    t.true(hasIn(store, tenant.secret));
    t.false(hasIn(filesIn(tenant.root), other.secret));
    t.true(tenant.log.some((line) => line.includes(tenant.root)));
    t.false(tenant.log.some((line) => line.includes(other.root) || line.includes(other.secret)));
  }
});

test('the audit log of one tenant does not mention the other', async (t) => {
  const { red, blue } = await startTenants(t);
  // The jobs are published one after the other, so that their jids differ.
  const [here, there] = [await tellAll(red.master), await tellAll(blue.master)];
  const recordsOf = async ({ root, master }: TenantUnderTest): Promise<string> => {
    await master.audit.flush();
    const files = filesIn(root).filter((file) => file.includes('/audit/'));
    return files.map((file) => readFileSync(file, 'utf8')).join('');
  };
  const [reds, blues] = [await recordsOf(red), await recordsOf(blue)];
  t.true(reds.includes(here.jid) && blues.includes(there.jid));
  t.false(reds.includes(there.jid) || blues.includes(here.jid));
});

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));
}
