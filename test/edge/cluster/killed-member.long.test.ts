/** Members of a centre in processes of their own. One of them is killed. */

import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { connectExtension, connectMaster } from '#client';
import { initCluster, joinCluster } from '#cluster';
import { type MasterConfig, resolveMasterConfig } from '#config';
import type { ReleaseState, SiteInfo } from '#edge';
import { natsTest, startNatsServer } from '../../helpers/nats-server.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { writeMasterKeys } from '../../helpers/vector-master.ts';
import { initKeys, publish, writeFiles } from '../bundles/release-stage.ts';
import { type Centre, eventually, siteInfo, startSite, stateDirOf } from '../edge-stage.ts';
import { startProcess } from '../master-process.ts';
import { ended, issue, join } from '../order-stage.ts';
import { sitesSection, testsOfCentre } from '../sections.ts';

/** Member in a process of its own. */
interface Process extends Pick<Centre, 'rpc' | 'url'> {
  readonly name: string;
  readonly config: MasterConfig;
  kill(): Promise<void>;
}

/** Starts the members `a`, `b` and `c` of a centre. */
async function startMembers(
  t: ExecutionContext,
  sites: ReturnType<typeof sitesSection>,
): Promise<readonly [Process, Process, Process]> {
  const directory = temporaryDirectory(t);
  const { host } = await startNatsServer(t);
  const start = async (name: string, by?: Process): Promise<Process> => {
    const place = {
      rootDir: path.join(directory, name),
      stateDir: stateDirOf(path.join(directory, name)),
      cluster: { name: 'centre', nats: [`nats://${host}`], member: name, replicas: 1 },
    };
    const config = resolveMasterConfig(place);
    if (by === undefined) {
      writeMasterKeys(config.pkiDir);
      await initCluster(config);
    } else {
      const api = connectMaster({ socketPath: by.config.socket });
      const { ticket } = await api.cluster.ticket();
      await joinCluster(config, ticket);
    }
    const all = {
      ...place,
      interface: '127.0.0.1',
      publishPort: 0,
      requestPort: 0,
      api: { host: '127.0.0.1', port: 0, disableSsl: true },
      sites,
    };
    const { port, kill } = await startProcess(t, all);
    const url = `http://127.0.0.1:${port}`;
    return {
      name,
      config,
      url,
      kill,
      rpc: (extension) => connectExtension({ socketPath: config.socket }, extension),
    };
  };
  const a = await start('a');
  return [a, await start('b', a), await start('c', a)];
}

// EDGE-C19 to EDGE-C21 of docs/consistency.md
natsTest(
  'a release and an order of a member that is killed reach the site at other members',
  async (t) => {
    t.timeout(600_000);
    const source = temporaryDirectory(t);
    writeFiles(source, {
      master: JSON.stringify({ file_roots: { base: [path.join(source, 'files')] } }),
      'files/large': Array.from({ length: 20_000 }, () => Math.random()).join('\n'),
    });
    const rings = { first: ['north'], all: 100 };
    const [a, b, c] = await startMembers(t, sitesSection({ source, rings }));
    const keys = await initKeys(a);
    const options = { autoAccept: true, acl: testsOfCentre };
    const addresses = [b.url, c.url];
    const north = await startSite(t, a, 'north', { ...options, site: { addresses } });
    const south = await startSite(t, b, 'south', { ...options, site: { addresses: [c.url] } });
    let runs = 0;
    const functions = { 'test.echo': () => (runs += 1) };
    await join(t, north, 'web1', functions);
    await join(t, south, 'web2', functions, 1);
    const places = async (): Promise<string> => {
      const list = await c.rpc('site').call<readonly SiteInfo[]>('list');
      return list.map(({ name, member }) => `${name} ${member}`).join();
    };
    await eventually(
      async () => (await places()) === 'north a,south b',
      'both sites are connected',
    );

    // The site `north` receives nothing from `a` any more, because `a` is killed at once.
    await publish(a, keys);
    const work = { kind: 'job', tgt: '*', fun: 'test.echo', arg: [] } as const;
    const order = await issue(a, ['*'], work);
    await a.kill();

    await eventually(async () => /^north [bc],south b$/.test(await places()), 'north moves');
    const report = await ended(c, order);
    t.deepEqual(
      report.sites.map(({ site, state, succeeded }) => [site, state, succeeded]),
      [
        ['north', 'done', 1],
        ['south', 'done', 1],
      ],
    );
    await eventually(async () => {
      const [release] = await c.rpc('site').call<readonly ReleaseState[]>('releases.list');
      return release?.state === 'done' && release.installed === 2;
    }, 'all rings have the release');
    t.is(runs, 2);
    // A further site joins, and gets the release from the remaining members.
    await startSite(t, c, 'east', options);
    await eventually(async () => (await siteInfo(b, 'east')).release?.version === 1, 'the release');
  },
);
