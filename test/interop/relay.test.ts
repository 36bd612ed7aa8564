/** Real minions in networks without a route to the master. They connect through haproxy. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import type { AgentInstance } from '#guests/metadata-agent/agent-credentials.ts';
import { startRelay } from '#guests/metadata-agent/relay.ts';
import { createSilentLogger } from '#master';
import { freePort } from '../../bench/free-port.ts';
import {
  labNetworks,
  type NetworkLab,
  relayProxyConfiguration,
} from '../../examples/guests/network-lab.ts';
import { hasLabPrograms, openLab, startLab } from '../heat-bridge/guests/network-lab.ts';
import { testWhere } from '../helpers/needs.ts';
import { hasNamespaces } from '../helpers/network-namespace.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { EventLog } from './event-log.ts';
import { eventually } from './eventually.ts';
import { pended, runJob } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';
import { RealMinion } from './real-minion.ts';

const needs = 'SALT_MINION, root, network namespaces, haproxy, curl';
const step = testWhere(hasNamespaces && hasLabPrograms, needs, steps('SALT_MINION'));

/** Timeout of the relay in seconds. It is longer than the interval between two PINGs. */
const relayTimeout = 20;
/**
 * Duration of the silence in milliseconds. It exceeds this timeout and the 32 seconds of the
 * metadata proxy.
 */
const silenceMs = 36_000;

for (const wayOut of ['haproxy', 'the relay of the agent'] as const) {
  step(
    `minions of one address in two networks enrol, get a file, and a job after a silence, by ${wayOut}`,
    async (t) => {
      const stage = await startStage(t);
      const { folder, relay, home, master } = stage;
      const isAgent = wayOut !== 'haproxy';
      await (isAgent ? startAgentRelay : startWayOut)(t, folder, relay);
      const lab = await startLab(t, folder, path.join(folder, 'metadata.sock'), (network) =>
        relayProxyConfiguration(network, { folder, ...home.ports, timeout: relayTimeout }),
      );
      const minions = await enrolMinions(t, stage, lab, '169.254.169.254');
      const subscriptions = async (): Promise<string[]> => {
        const tables = await Promise.all(
          labNetworks.map((it) => lab.run(it, 'cat', '/proc/net/tcp')),
        );
        return tables.map((table) => connectionsTo(home.ports.publishPort, table));
      };
      const before = await subscriptions();
      for (const connections of before) t.regex(connections, /^[\dA-F:]+$/, 'one each');
      const present = await presentIn(stage);
      const addresses = isAgent
        ? ['instance:p/of-net-A', 'instance:p/of-net-B']
        : ['net-A/10.0.0.5', 'net-B/10.0.0.5'];
      for (const it of addresses) t.true(present.includes(it));
      const ask = async (fun: string, ...arg: readonly string[]): Promise<unknown[]> => {
        const { returns } = await runJob(master.api, { tgt: '*', fun, arg });
        return minions.map(({ id }) => returns.get(id)?.return);
      };
      t.deepEqual(await ask('test.ping'), [true, true]);
      const text = 'through the relay\n';
      t.deepEqual(await ask('cp.get_file_str', 'salt://motd'), [text, text]);
      // The test checks that connections survive this silence.
      await new Promise((resolve) => setTimeout(resolve, silenceMs));
      t.deepEqual(await ask('test.ping'), [true, true]);
      t.deepEqual(await subscriptions(), before, 'the subscriptions were not cut');
    },
  );
}

step('minions whose only route is fe80::a9fe:a9fe enrol, and get a file and a job', async (t) => {
  const stage = await startStage(t);
  const { home, master, relay } = stage;
  const lab = openLab(t);
  // Salt drops the device of a link-local address, so these minions use another address of the
  // master.
  const address = 'fd00:a9fe::1';
  for (const it of labNetworks) {
    const here = ['-n', lab.host(it), 'addr', 'add', `${address}/128`, 'dev', lab.device(it)];
    execFileSync('ip', [...here, 'nodad']);
    const route = ['route', 'add', `${address}/128`, 'via', 'fe80::a9fe:a9fe', 'dev', 'e0'];
    execFileSync('ip', ['-6', '-n', lab.guest(it), ...route]);
  }
  const networks = labNetworks.map((it) => ({
    networks: [`net-${it}`],
    namespace: lab.host(it),
    addresses: [address],
    port: 80,
  }));
  const ports = [
    { guestPort: home.ports.publishPort, port: relay.publishPort },
    { guestPort: home.ports.requestPort, port: relay.retPort },
  ];
  const log = createSilentLogger();
  const running = await startRelay({ host: '127.0.0.1', networks, ports }, { find, log });
  t.teardown(() => running.close());
  const minions = await enrolMinions(t, stage, lab, address);
  const present = await presentIn(stage);
  for (const it of labNetworks) t.true(present.includes(`instance:p/of-net-${it}`));
  for (const { id } of minions) {
    const request = { tgt: id, fun: 'cp.get_file_str', arg: ['salt://motd'] };
    const { returns } = await runJob(master.api, request);
    t.is(returns.get(id)?.return, 'through the relay\n');
  }
});

interface Stage {
  readonly folder: string;
  /** Ports of the master for relays. */
  readonly relay: { readonly publishPort: number; readonly retPort: number };
  readonly home: MasterHome;
  readonly master: OurMaster;
}

async function startStage(t: ExecutionContext): Promise<Stage> {
  const folder = temporaryDirectory(t);
  const files = path.join(folder, 'files');
  mkdirSync(files);
  writeFileSync(path.join(files, 'motd'), 'through the relay\n');
  const relay = { publishPort: await freePort(), retPort: await freePort(), from: ['127.0.0.1'] };
  const home = await MasterHome.create({ relay, fileRoots: { base: [files] } });
  t.teardown(() => home.dispose());
  const master = await home.startHere();
  t.teardown(() => master.close());
  return { folder, relay, home, master };
}

/**
 * Enrols one minion in each network.
 * @param masterAddress - address under which the minions reach the master
 */
async function enrolMinions(
  t: ExecutionContext,
  { home, master }: Stage,
  lab: NetworkLab,
  masterAddress: string,
): Promise<readonly RealMinion[]> {
  const events = new EventLog(await master.api.events.subscribe());
  const minions: RealMinion[] = [];
  t.teardown(() => Promise.all(minions.map((it) => it.dispose())));
  for (const [index, network] of labNetworks.entries()) {
    const program = minionPrograms[index] ?? minionPrograms[0] ?? '';
    const namespace = lab.guest(network);
    const place = { namespace, masters: [masterAddress], ...home.ports };
    minions.push(await RealMinion.create({ program, name: `relay-${network}`, ...place }));
  }
  for (const minion of minions) minion.start();
  for (const { id } of minions) await pended(events, id);
  await master.api.keys.accept({ match: '*' });
  for (const { id } of minions) {
    const tag = `salt/minion/${id}/start`;
    await events.seen(tag, (event) => event.tag === tag);
  }
  return minions;
}

/** Returns the addresses of the connected minions. */
async function presentIn({ master }: Stage): Promise<string> {
  const presence = { fun: 'manage.present', kwarg: { show_ip: true } };
  return JSON.stringify((await master.api.runners.run(presence)).return);
}

const find = async ([network]: readonly string[]): Promise<AgentInstance> => ({
  instance: `of-${network}`,
  project: 'p',
});

/** Starts the relay of the metadata agent, which determines the instance of each connection. */
async function startAgentRelay(
  t: ExecutionContext,
  folder: string,
  { publishPort, retPort }: { readonly publishPort: number; readonly retPort: number },
): Promise<void> {
  const ports = [
    { socket: path.join(folder, 'publish.sock'), port: publishPort },
    { socket: path.join(folder, 'ret.sock'), port: retPort },
  ];
  const log = createSilentLogger();
  const running = await startRelay({ host: '127.0.0.1', ports }, { find, log });
  t.teardown(() => running.close());
}

/**
 * Starts a proxy on the host. The proxies in the networks have no route, and connect to its
 * sockets.
 */
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

/** Returns the local ends of a namespace's connections to a port, from /proc/net/tcp. */
function connectionsTo(port: number, table: string): string {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = table.split('\n').map((line) => line.trim().split(/\s+/));
  return rows
    .filter(([, , to = '', state]) => to.endsWith(remote) && state === '01')
    .map(([, from = '']) => from)
    .sort()
    .join();
}
