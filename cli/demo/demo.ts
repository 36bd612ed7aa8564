/**
 * The demonstration: a master, three minions, keys, a job, events, and a forged event, over real
 * ZeroMQ sockets on free loopback ports.
 */
import { createBridge } from '../../heat-bridge/index.ts';
import {
  createMaster,
  type Master,
  type MasterConfig,
  resolveMasterConfig,
} from '../../master/index.ts';
import {
  createMinion,
  createMinionKeys,
  dialZeromq,
  type Minion,
} from '../../minion-protocol/index.ts';
import { greeting, greetingGrant, showCommands } from './commands.ts';
import { showEnrolment } from './enrolment.ts';
import { type RecordingEndpoint, showSignal, startRecordingEndpoint } from './signal.ts';
import type { Stage } from './stage.ts';

const names = ['web1', 'web2', 'db1'];

/** Runs it all. `directory` is empty and belongs to the demonstration. */
export async function runDemo(stage: Stage, directory: string): Promise<void> {
  const endpoint = await startRecordingEndpoint();
  const config = demoConfig(directory, endpoint);
  const bridge = createBridge({ commands: [greeting], service: 'trove' });
  const master = createMaster({
    config,
    extensions: [bridge],
    pillar: async ({ id }) => ({ role: id.replace(/\d/g, '') }),
  });
  const minions: Minion[] = [];
  try {
    await showStart(stage, master, config);
    const starting = await enrol(stage, master, minions);
    await acceptKeys(stage, master);
    await Promise.all(starting);
    await runJob(stage, master, '*', 'test.ping');
    await runJob(stage, master, 'web*', 'demo.greet', ['Heat']);
    await showCommands(stage, bridge);
    await showSignals(stage, master, minions[0]);
    await showSignal(stage, bridge, endpoint, minions[0]);
    minions.push(await showEnrolment(stage, master, bridge));
    await stage.farewell(directory, config);
  } finally {
    await Promise.all(minions.map((minion) => minion.stop()));
    await master.close();
    await endpoint.close();
  }
}

function demoConfig(rootDir: string, { origin }: RecordingEndpoint): MasterConfig {
  return resolveMasterConfig({
    rootDir,
    id: 'demo',
    interface: '127.0.0.1',
    retPort: 0,
    publishPort: 0,
    pkiDir: '/pki',
    cachedir: '/cache',
    sockDir: '/run',
    stateDir: '/state',
    timeout: 5,
    acl: { signals: [{ tag: 'heat/*', minions: 'web*' }], rules: [greetingGrant] },
    bridge: { enroll: {}, handles: { endpoints: [origin] } },
  });
}

async function showStart(stage: Stage, master: Master, config: MasterConfig): Promise<void> {
  const startedAt = performance.now();
  await master.start();
  const readyMs = Math.round(performance.now() - startedAt);
  const { requestPort, publishPort } = await master.status();
  stage.title('A master in this process');
  stage.line(
    `ready after ${readyMs} ms, requests on ${requestPort}, publications on ${publishPort}`,
  );
  await stage.keepConfig(config, { requestPort, publishPort });
}

/** Starts the minions; each resolves once its key has been accepted and it has subscribed. */
async function enrol(stage: Stage, master: Master, minions: Minion[]): Promise<Promise<void>[]> {
  stage.title('Three minions sign in; their keys wait for an operator');
  const { requestPort } = await master.status();
  const pending = whenHeardOf(master, names);
  const starting: Promise<void>[] = [];
  for (const id of names) {
    const minion = createMinion({
      id,
      keys: await createMinionKeys(),
      transport: dialZeromq({ host: '127.0.0.1', requestPort }),
      acceptanceWaitMs: 250,
      functions: {
        'demo.greet': ({ args: [who] }) => `${id} greets ${String(who)}`,
        'demo.greet_by_name': ({ kwargs: { name } }) => `${id} greets ${String(name)} by name`,
      },
    });
    minions.push(minion);
    starting.push(minion.start());
  }
  await pending;
  for (const key of await master.keys.list()) {
    stage.line(`${key.state}  ${key.id.padEnd(5)} ${key.fingerprint.slice(0, 23)}…`);
  }
  return starting;
}

async function acceptKeys(stage: Stage, master: Master): Promise<void> {
  stage.title('The operator accepts them');
  for (const { id, from, to } of await master.keys.accept({ match: '*' })) {
    stage.line(`${id.padEnd(5)} ${from} → ${to ?? 'deleted'}`);
  }
}

async function runJob(
  stage: Stage,
  master: Master,
  tgt: string,
  fun: string,
  arg: string[] = [],
): Promise<void> {
  stage.title(`A job: ${fun} on '${tgt}'`);
  for await (const update of master.jobs.run({ tgt, fun, arg })) {
    if (update.type === 'published') {
      stage.line(`jid ${update.jid} published to ${update.minions.join(', ')}`);
    } else if (update.type === 'return') {
      stage.line(`${update.minion.padEnd(5)} ${JSON.stringify(update.return)}`);
    }
  }
}

/** What a minion may say of itself reaches the bus, whatever else it tries does not. */
async function showSignals(
  stage: Stage,
  master: Master,
  minion: Minion | undefined,
): Promise<void> {
  stage.title('web1 emits its own beacon, then forges a sign-in of db1');
  const beacon = nextEvent(master, 'salt/beacon/*');
  await minion?.fire('salt/beacon/web1/load/', { '1m': 0.5 });
  stage.line(`on the bus: ${await beacon}`);
  await minion?.fire('salt/auth', { id: 'db1', result: true, act: 'accept' });
  for (const { tag, reason } of await master.events.denials()) {
    stage.line(`refused:    ${tag} (${reason})`);
  }
}

/** Resolves when each of these ids has signed in, with success or without. */
async function whenHeardOf(master: Master, ids: readonly string[]): Promise<void> {
  const missing = new Set(ids);
  for await (const { data } of master.events.subscribe({ match: 'salt/auth' })) {
    missing.delete(String(data.id));
    if (missing.size === 0) return;
  }
}

async function nextEvent(master: Master, match: string): Promise<string> {
  for await (const { tag } of master.events.subscribe({ match })) return tag;
  return 'nothing';
}
