/** Real minions in networks without a route to the master, through haproxy. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { freePort } from '../../bench/free-port.ts';
import { relayProxyConfiguration } from '../../examples/guests/network-lab.ts';
import type { AgentInstance } from '../../heat-bridge/guests/agent-credentials.ts';
import { startRelay } from '../../heat-bridge/guests/relay.ts';
import { createSilentLogger } from '../../master/index.ts';
import { hasLabPrograms, startLab } from '../heat-bridge/guests/network-lab.ts';
import { testWhere } from '../helpers/needs.ts';
import { hasNamespaces } from '../helpers/network-namespace.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { pended, runJob } from './fleet.ts';
import { MasterHome } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';
import { RealMinion } from './real-minion.ts';

const needs = 'SALT_MINION, root, network namespaces, haproxy, curl';
const step = testWhere(hasNamespaces && hasLabPrograms, needs, steps('SALT_MINION'));

/** Of the relay; longer than between two PINGs. */
const relayTimeout = 20;
/** Longer than that, and than the 32 seconds of the metadata proxy. */
const silenceMs = 36_000;

for (const wayOut of ['haproxy', 'the relay of the agent'] as const) {
  step(
    `minions of one address in two networks enrol, get a file, and a job after a silence, by ${wayOut}`,
    async (t) => {
      const folder = temporaryDirectory(t);
      const files = path.join(folder, 'files');
      mkdirSync(files);
      writeFileSync(path.join(files, 'motd'), 'through the relay\n');
      const relay = {
        publishPort: await freePort(),
        retPort: await freePort(),
        from: ['127.0.0.1'],
      };
      const home = await MasterHome.create({ relay, fileRoots: { base: [files] } });
      t.teardown(() => home.dispose());
      const master = await home.startHere();
      t.teardown(() => master.close());
      const events = new EventLog(await master.api.events.subscribe());
      const isAgent = wayOut !== 'haproxy';
      await (isAgent ? startAgentRelay : startWayOut)(t, folder, relay);
      const lab = await startLab(t, folder, path.join(folder, 'metadata.sock'), (network) =>
        relayProxyConfiguration(network, { folder, ...home.ports, timeout: relayTimeout }),
      );
      const networks = ['A', 'B'] as const;
      const minions: RealMinion[] = [];
      t.teardown(() => Promise.all(minions.map((it) => it.dispose())));
      for (const [index, network] of networks.entries()) {
        const program = minionPrograms[index] ?? minionPrograms[0] ?? '';
        const namespace = lab.guest(network);
        const name = `relay-${network}`;
        const masters = ['169.254.169.254'];
        minions.push(await RealMinion.create({ program, name, namespace, masters, ...home.ports }));
      }
      for (const minion of minions) minion.start();
      for (const { id } of minions) await pended(events, id);
      await master.api.keys.accept({ match: '*' });
      for (const { id } of minions) {
        const tag = `salt/minion/${id}/start`;
        await events.seen(tag, (event) => event.tag === tag);
      }
      const subscriptions = async (): Promise<string[]> => {
        const tables = await Promise.all(networks.map((it) => lab.run(it, 'cat', '/proc/net/tcp')));
        return tables.map((table) => connectionsTo(home.ports.publishPort, table));
      };
      const before = await subscriptions();
      for (const connections of before) t.regex(connections, /^[\dA-F:]+$/, 'one each');
      const presence = { fun: 'manage.present', kwarg: { show_ip: true } };
      const { return: present } = await master.api.runners.run(presence);
      const addresses = isAgent
        ? ['instance:p/of-net-A', 'instance:p/of-net-B']
        : ['net-A/10.0.0.5', 'net-B/10.0.0.5'];
      for (const it of addresses) t.true(JSON.stringify(present).includes(it));
      const ask = async (fun: string, ...arg: readonly string[]): Promise<unknown[]> => {
        const { returns } = await runJob(master.api, { tgt: '*', fun, arg });

        return minions.map(({ id }) => returns.get(id)?.return);
      };
      t.deepEqual(await ask('test.ping'), [true, true]);
      const text = 'through the relay\n';
      t.deepEqual(await ask('cp.get_file_str', 'salt://motd'), [text, text]);
      // The silence is what is tried.
      await new Promise((resolve) => setTimeout(resolve, silenceMs));
      t.deepEqual(await ask('test.ping'), [true, true]);
      t.deepEqual(await subscriptions(), before, 'the subscriptions were not cut');
    },
  );
}

/** The same by the relay of the metadata agent, which finds out whose connections these are. */
async function startAgentRelay(
  t: ExecutionContext,
  folder: string,
  { publishPort, retPort }: { readonly publishPort: number; readonly retPort: number },
): Promise<void> {
  const ports = [
    { socket: path.join(folder, 'publish.sock'), port: publishPort },
    { socket: path.join(folder, 'ret.sock'), port: retPort },
  ];
  const find = async ([network]: readonly string[]): Promise<AgentInstance> => ({
    instance: `of-${network}`,
    project: 'p',
  });
  const log = createSilentLogger();
  const running = await startRelay({ host: '127.0.0.1', ports }, { find, log });
  t.teardown(() => running.close());
}

/** The proxies of the networks have no route: they go through sockets of one on the host. */
async function startWayOut(
  t: ExecutionContext,
  folder: string,
  { publishPort, retPort }: { readonly publishPort: number; readonly retPort: number },
): Promise<void> {
  const file = path.join(folder, 'way-out.cfg');
  const passed = [
    ['publish', publishPort],
    ['ret', retPort],
  ].map(
    ([name, port]) => `listen salt-${name}
    bind unix@${folder}/${name}.sock mode 600
    server master 127.0.0.1:${port}
`,
  );
  writeFileSync(file, `${defaults}${passed.join('')}`);
  const proxy: ChildProcess = spawn('haproxy', ['-db', '-f', file], { stdio: 'ignore' });
  t.teardown(() => proxy.kill('SIGKILL'));
  const sockets = ['publish.sock', 'ret.sock'].map((name) => path.join(folder, name));
  await eventually('the sockets of haproxy', async () => sockets.every((it) => existsSync(it)));
}

const defaults = `global
    maxconn 256
defaults
    mode tcp
    timeout connect 10s
    timeout client ${relayTimeout}s
    timeout server ${relayTimeout}s
`;

/** The local ends of a namespace's connections to a port, of /proc/net/tcp. */
function connectionsTo(port: number, table: string): string {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = table.split('\n').map((line) => line.trim().split(/\s+/));
  return rows
    .filter(([, , to = '', state]) => to.endsWith(remote) && state === '01')
    .map(([, from = '']) => from)
    .sort()
    .join();
}
