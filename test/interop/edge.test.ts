/**
 * Real minions at two sites whose centre is closed and started again. The absence of the centre
 * lasts at least `EDGE_AWAY_SECONDS`; by default it ends when the sites have done their work.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import type { KeyClaim, ReleaseState } from '#edge';
import type { EnrolRequest } from '#heat-bridge';
import type { MasterApi } from '#master';
import { freePort } from '../../bench/free-port.ts';
import { initKeys, publish, writeFiles } from '../edge/bundles/release-stage.ts';
import {
  type Centre,
  type StageMaster,
  siteInfo,
  siteStatus,
  startCentre,
  startSite,
} from '../edge/edge-stage.ts';
import { sitesSection } from '../edge/sections.ts';
import { ScratchMachine } from '../heat-bridge/enroll/scratch-machine.ts';
import { always, recorderFor } from '../heat-bridge/signals/recorder.ts';
import { within } from '../helpers/deadline.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { Fleet, runJob } from './fleet.ts';
import { cloud, Stack, services } from './heat-cloud.ts';
import { minionPrograms, steps } from './programs.ts';

const step = steps('SALT_MINION');
const awayMs = Number(process.env.EDGE_AWAY_SECONDS ?? '0') * 1000;

const tls = (name: string): string =>
  fileURLToPath(new URL(`../../test/fixtures/tls/${name}`, import.meta.url));

/** A site with one real minion and a machine that will enrol. */
interface Site {
  readonly name: string;
  readonly master: StageMaster;
  readonly api: MasterApi;
  readonly fleet: Fleet;
  readonly machine: ScratchMachine;
  /** Id of the machine. */
  readonly enrolled: string;
  readonly enrolment: string;
  readonly userData: string;
}

step('sites with real minions work without their centre, and report once', async (t) => {
  t.timeout(600_000 + awayMs);
  const heat = await receiver(t);
  const source = writeSource(t);
  const options = {
    sites: sitesSection({ source }),
    bridge: { handles: { endpoints: heat.endpoints } },
  };
  const centre = await startCentre(t, options);
  const keys = await initKeys(centre);
  const sites: readonly Site[] = [
    await openSite(t, centre, 'north', minionPrograms.at(0)),
    await openSite(t, centre, 'south', minionPrograms.at(-1)),
  ];
  await publish(centre, keys);
  await eventually('the release at both sites', async () => {
    const [release] = await centre.rpc('site').call<readonly ReleaseState[]>('releases.list');
    return release?.state === 'done' && release.installed === sites.length;
  });
  const ids = sites.flatMap(({ fleet }) => fleet.ids);
  await centre.server.bridge.handles.add({
    alias: 'ready',
    minions: ids,
    signal: await heat.signal(),
  });
  await centre.server.close();
  const closedAt = performance.now();
  await untilConnected(sites, false);

  const jobs = new Map<Site, readonly string[]>();
  for (const site of sites) jobs.set(site, await workAlone(t, site));
  t.is(heat.count(), 0);
  await sleep(Math.max(0, closedAt + awayMs - performance.now()));
  t.log(`without the centre for ${Math.round((performance.now() - closedAt) / 1000)} s`);

  const again = await startCentre(t, options, centre.directory, centre.port);
  await untilConnected(sites, true);
  await eventually('empty logs of the sites', async () => {
    const statuses = await Promise.all(sites.map(({ master }) => siteStatus(master)));
    return statuses.every(({ log }) => Object.values(log).every(({ entries }) => entries === 0));
  });
  await heat.delivered(ids);
  for (const [site, jids] of jobs) await checkArrived(t, again, site, jids);
});

/** Heat, or a webhook in its place if `HEAT_ENV` is not set. */
interface Receiver {
  readonly endpoints: readonly string[];
  signal(): Promise<unknown>;
  /** Number of requests of the webhook. 0 for Heat. */
  count(): number;
  /** Waits until each minion has been signalled once. */
  delivered(minions: readonly string[]): Promise<void>;
}

async function receiver(t: ExecutionContext): Promise<Receiver> {
  if (cloud !== undefined) {
    // The condition must outlast the absence of the centre and the work before and after it.
    const stack = await Stack.create('HEAT_SIGNAL', 2, 600 + awayMs / 1000);
    t.teardown(() => stack.delete());
    return {
      endpoints: services(),
      signal: () => stack.handle(),
      count: () => 0,
      delivered: async (minions) => {
        const { status, reason } = await stack.end();
        t.is(status, 'CREATE_COMPLETE', reason);
        t.deepEqual(Object.keys(await stack.data()).toSorted(), minions.toSorted());
      },
    };
  }
  const service = await recorderFor(t, always(204));
  return {
    endpoints: [service.origin],
    signal: async () => ({
      url: `${service.origin}/hook`,
      key: `whsec_${randomBytes(32).toString('base64')}`,
    }),
    count: () => service.requests.length,
    delivered: async (minions) => {
      await within('the signals', service.heard(minions.length));
      // A repeated delivery would follow the first one at once.
      await sleep(2000);
      const sent = service.requests.map(({ body }) => JSON.parse(body).data);
      t.deepEqual(sent.map(({ minion }) => minion).toSorted(), minions.toSorted());
    },
  };
}

/** Writes the source of a release with a state, a pillar value and the right to send signals. */
function writeSource(t: ExecutionContext): string {
  const trees = temporaryDirectory(t);
  writeFiles(trees, {
    'states/top.sls': "base:\n  '*':\n    - note\n",
    'states/note.sls': `{{ opts['root_dir'] }}/note:
  file.managed:
    - source: salt://text
    - template: jinja
`,
    'states/text': "{{ pillar['greeting'] }}\n",
    'pillar/top.sls': "base:\n  '*':\n    - note\n",
    'pillar/note.sls': 'greeting: from the release\n',
  });
  const source = temporaryDirectory(t);
  const options = {
    file_roots: { base: [`${trees}/states`] },
    pillar_roots: { base: [`${trees}/pillar`] },
    saltbridge: { acl: { signals: [{ tag: 'heat/*', minions: '*' }] } },
  };
  writeFiles(source, { master: JSON.stringify(options) });
  return source;
}

async function openSite(
  t: ExecutionContext,
  centre: Centre,
  name: string,
  program = '',
): Promise<Site> {
  const [requestPort, publishPort, port] = [await freePort(), await freePort(), await freePort()];
  const master = await startSite(t, centre, name, {
    requestPort,
    publishPort,
    api: { host: '127.0.0.1', port, sslCrt: tls('master.pem'), sslKey: tls('master.key') },
    bridge: {
      enroll: {
        masters: ['127.0.0.1'],
        url: `https://127.0.0.1:${port}`,
        certificate: tls('master.pem'),
      },
    },
  });
  const api = connectMaster({ socketPath: master.server.master.config.socket });
  const events = new EventLog(await api.events.subscribe());
  const fleet = await Fleet.create({ requestPort, publishPort, name }, [program]);
  t.teardown(() => fleet.dispose());
  await fleet.enrol(api, events);
  const machine = new ScratchMachine({ path: program });
  t.teardown(() => machine.dispose());
  const enrolled = `enrolled-${name}`;
  const request: EnrolRequest = {
    id: enrolled,
    project: 'interop',
    by: 'claim',
    format: 'shell',
    configDir: machine.configDir,
    config: machine.config,
  };
  const { userData, enrolment } = await master.server.bridge.enroll.create(request);
  const { number } = enrolment;
  return { name, master, api, fleet, machine, enrolled, enrolment: number, userData };
}

async function untilConnected(sites: readonly Site[], isConnected: boolean): Promise<void> {
  await eventually(`all links to be ${isConnected ? 'open' : 'lost'}`, async () => {
    const statuses = await Promise.all(sites.map(({ master }) => siteStatus(master)));
    return statuses.every((it) => it.isConnected === isConnected);
  });
}

/**
 * Restarts the minion of a site, and runs jobs, an enrolment and a signal.
 * @returns the ids of the jobs in their order
 */
async function workAlone(t: ExecutionContext, site: Site): Promise<readonly string[]> {
  const { fleet, api, machine, master, name } = site;
  const [minion] = fleet.minions;
  if (minion === undefined) throw new Error(`${name} has no minion`);
  // The first release adds file_roots, so the master has restarted since the minion was accepted.
  const events = new EventLog(await api.events.subscribe());
  await minion.kill();
  fleet.start();
  await fleet.started(events);

  const jids: string[] = [];
  const highstate = await runJob(api, { tgt: minion.id, fun: 'state.highstate' });
  jids.push(highstate.jid);
  t.is(highstate.returns.get(minion.id)?.retcode, 0, minion.describe());
  const note = path.join(minion.directory, 'note');
  t.true(existsSync(note), minion.describe());
  t.is(readFileSync(note, 'utf8'), 'from the release\n');

  for (let number = 0; number < 3; number += 1) {
    const echo = await runJob(api, { tgt: minion.id, fun: 'test.echo', arg: [`${number}`] });
    t.is(String(echo.returns.get(minion.id)?.return), `${number}`);
    jids.push(echo.jid);
  }

  const { status, output } = await machine.runShell(site.userData);
  t.is(status, 0, output);
  const signedIn = master.server.bridge.enroll.signedIn(site.enrolment);
  await within(`the sign-in of ${site.enrolled}; its log ends: ${machine.log}`, signedIn);

  const signal = JSON.stringify({ reason: 'booted', data: { site: name } });
  const signals = async (): Promise<number> => (await siteStatus(master)).log.signal.entries;
  const before = await signals();
  await minion.saltCall('event.send', 'heat/ready', signal);
  await eventually('the signal in the log', async () => (await signals()) === before + 1);
  return jids;
}

interface Entry {
  readonly class: string;
  readonly sequence: number;
  readonly kind: string;
  readonly value: Readonly<Record<string, unknown>>;
}

/** Checks that the entries of a site are at the centre once and in their order. */
async function checkArrived(
  t: ExecutionContext,
  centre: Centre,
  { name, fleet, enrolled }: Site,
  jids: readonly string[],
): Promise<void> {
  const client = centre.rpc('site');
  const found = await client.call<readonly Entry[]>('entries', { name, limit: 10_000 });
  const entries = found
    .filter((it) => it.class === 'return')
    .toSorted((a, b) => a.sequence - b.sequence);
  t.deepEqual(
    entries.map(({ sequence }) => sequence),
    entries.map((_, index) => (entries[0]?.sequence ?? 0) + index),
    'the sequence has neither gaps nor repetitions',
  );
  const [id] = fleet.ids;
  const returns = entries.filter(({ kind, value }) => kind === 'return' && value.minion === id);
  t.deepEqual(
    returns.map(({ value }) => value.jid).filter((jid) => jids.includes(String(jid))),
    [...jids],
  );
  const { log } = await siteInfo(centre, name);
  for (const [each, { dropped, refused }] of Object.entries(log)) {
    t.deepEqual([each, dropped, refused], [each, 0, 0]);
  }
  const minions = await client.call<readonly { minion: string }[]>('minions');
  t.true(minions.some(({ minion }) => minion === enrolled));
  const claims = await client.call<readonly KeyClaim[]>('releases.claims');
  t.true(claims.some((it) => it.site === name && it.id === enrolled));
}
