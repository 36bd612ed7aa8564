/** Real minions with three masters of a cluster and three NATS servers. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { initCluster, joinCluster } from '#cluster';
import { type MasterConfig, type MasterOptions, resolveMasterConfig } from '#config';
import { startNatsServers } from '../../bench/nats-cluster.ts';
import { hasNatsServer } from '../helpers/nats-server.ts';
import { testWhere } from '../helpers/needs.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { Fleet } from './fleet.ts';
import { MasterHome, type MasterProcess } from './our-master.ts';
import { steps } from './programs.ts';

const step = hasNatsServer
  ? steps('SALT_MINION')
  : testWhere(hasNatsServer, 'nats-server of Debian');
const shell = (name: string, command: string): string => `
${name}:
  salt.function: [{ name: cmd.shell }, { tgt: '*' }, { arg: ['${command}'] }]
`;
const addresses = ['127.0.0.1', '127.0.0.2', '127.0.0.3'] as const;
const names = ['a', 'b', 'c'] as const;

step(
  'minions with two masters of a cluster run each job once, even without one master',
  async (t) => {
    const directory = temporaryDirectory(t);
    const servers = await startNatsServers(directory, 3);
    t.teardown(() => Promise.all(servers.map((server) => server.kill())));
    const nats = servers.map(({ url }) => url);
    const first = await MasterHome.create();
    const homes: MasterHome[] = [];
    for (const [index, member] of names.entries()) {
      const more: Partial<MasterOptions> = {
        interface: addresses[index] ?? '',
        retPort: first.ports.requestPort,
        publishPort: first.ports.publishPort,
        keysize: 2048,
        fileRoots: { base: [directory] },
        cluster: { name: 'interop', nats, member },
      };
      const home = await MasterHome.create(more);
      t.teardown(() => home.dispose());
      homes.push(home);
    }
    first.dispose();
    const configs = homes.map((home): MasterConfig => resolveMasterConfig(home.options));
    const started: MasterProcess[] = [];
    const start = async (index: number): Promise<MasterProcess> => {
      const master = await (homes[index] ?? first).startProcess();
      t.teardown(() => master.kill());
      started[index] = master;
      return master;
    };
    const [configA, configB, configC] = configs;
    if (configA === undefined || configB === undefined || configC === undefined) return t.fail();
    await initCluster(configA);
    const a = await start(0);
    for (const [index, config] of [configB, configC].entries()) {
      const { ticket } = await a.api.cluster.ticket();
      await joinCluster(config, ticket);
      await start(index + 1);
    }
    const [, b, c] = started;
    if (b === undefined || c === undefined) return t.fail();

    const fleet = await Fleet.create({
      ...first.ports,
      name: 'cluster',
      masters: addresses.slice(0, 2),
    });
    t.teardown(() => fleet.dispose());
    const [toA, toB] = await Promise.all(
      [a, b].map(async ({ api }) => new EventLog(await api.events.subscribe())),
    );
    fleet.start();
    const pending = async (): Promise<number> =>
      (await c.api.keys.list({ state: 'pending' })).length;
    await eventually('all keys to be pending', async () => (await pending()) === fleet.ids.length);
    // The command is sent to the master to which no minion is connected.
    await c.api.keys.accept({ match: '*' });
    for (const events of [toA, toB]) if (events !== undefined) await fleet.started(events);

    const file = path.join(directory, 'ran');
    const arg = [`echo ran >> ${file}`];
    const { returns: ran } = await fleet.ask(c.api, { fun: 'cmd.shell', arg });
    t.deepEqual(
      [...ran.values()].map((it) => it.return),
      fleet.ids.map(() => ''),
    );
    t.is(readFileSync(file, 'utf8').trim().split('\n').length, fleet.ids.length);

    const said = path.join(directory, 'said');
    const states = [
      shell('first', `echo first >> ${said}`),
      shell('slow', `echo begun >> ${said}; sleep 5; echo slow >> ${said}`),
      shell('last', `echo last >> ${said}`),
    ];
    writeFileSync(path.join(directory, 'whole.sls'), states.join(''));
    const { jid } = await a.api.runners.start({ fun: 'state.orchestrate', arg: ['whole'] });
    const lines = (): readonly string[] =>
      existsSync(said) ? readFileSync(said, 'utf8').trim().split('\n') : [];
    const counts = (): Record<string, number> =>
      Object.fromEntries(
        [...new Set(lines())].map((word) => [word, lines().filter((it) => it === word).length]),
      );
    const { length: all } = fleet.ids;
    await eventually('the second state', async () => counts().begun === all);

    await a.kill();
    await eventually('the end of the orchestration at another member', async () => {
      const job = await b.api.jobs.show(jid).catch(() => undefined);
      return job?.returns[0]?.success === true;
    });
    t.deepEqual(counts(), { first: all, begun: all, slow: all, last: all });
    for (const { api } of [c, b]) await fleet.ask(api, { fun: 'test.ping' });
    const again = await start(0);
    await fleet.connected(again.api);
    const { returns } = await fleet.ask(again.api, { fun: 'cmd.shell', arg });
    t.is(returns.size, fleet.ids.length);
    t.is(readFileSync(file, 'utf8').trim().split('\n').length, 2 * fleet.ids.length);
  },
);
