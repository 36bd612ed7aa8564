/**
 * The demonstration: a master with three minions, which shows keys, a job, events and a forged
 * event. It uses real ZeroMQ sockets on free loopback ports.
 */

import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { Writable } from 'node:stream';
import { allow, type PolicyRule } from '#acl';
import { type MasterConfig, resolveMasterConfig } from '#config';
import { type Bridge, createBridge } from '#guests';
import { BridgeError, type CommandDefinition } from '#heat-bridge';
import type { Master } from '#master';
import {
  createMinion,
  createMinionKeys,
  dialZeromq,
  keyFingerprint,
  type Minion,
} from '#minion-protocol';
import { createSaltApi } from '#salt-api';
import { createMaster } from '#server';

/** The only command that the service of the demonstration may run. Its parameters are validated. */
const greeting: CommandDefinition = {
  name: 'demo.greet',
  description: 'Greets somebody.',
  function: 'demo.greet_by_name',
  reviewed: 'function of this demonstration that puts a name into a sentence',
  parameters: {
    type: 'object',
    required: ['name'],
    properties: { name: { type: 'string', pattern: '^[A-Z][a-z]{1,20}$' } },
  },
};

/**
 * Rule that permits the service `trove` to run the demonstration's commands on the minions `web*`.
 */
const greetingGrant: PolicyRule = allow('greetings', {
  subject: { service: 'trove' },
  action: 'command',
  resource: { fun: 'demo.*', within: 'web*' },
});

/** Shows how a service runs a named command, and how other calls are rejected. */
async function showCommands(output: DemoOutput, bridge: Pick<Bridge, 'run'>): Promise<void> {
  output.title("A named command: the service trove calls demo.greet on 'web*'");
  const handle = await bridge.run('demo.greet', { target: 'web*', params: { name: 'Heat' } });
  for (const { minion, return: value } of (await handle.outcome).results) {
    output.line(`${minion.padEnd(5)} ${JSON.stringify(value)}`);
  }
  output.title('Calls that are rejected');
  await showRefusal(output, bridge, 'cmd.run', 'web*', { cmd: 'id' });
  await showRefusal(output, bridge, 'demo.greet', 'web*', { name: '$(id)' });
  await showRefusal(output, bridge, 'demo.greet', 'db1', { name: 'Heat' });
}

async function showRefusal(
  output: DemoOutput,
  bridge: Pick<Bridge, 'run'>,
  name: string,
  target: string,
  params: Readonly<Record<string, string>>,
): Promise<void> {
  try {
    await bridge.run(name, { target, params });
  } catch (error) {
    if (!(error instanceof BridgeError)) throw error;
    const asked = `${name} on ${target}`.padEnd(20);
    output.line(`${asked} ${error.code} (${error.message})`);
  }
}

const enrolledId = 'web3';

/**
 * Shows an enrolment: a machine claims its key with a ticket, and another key with the same ticket
 * is rejected.
 * @returns the minion, which has signed in
 */
async function showEnrolment(output: DemoOutput, master: Master, bridge: Bridge): Promise<Minion> {
  output.title(`${enrolledId} becomes a minion with a ticket; no operator accepts it`);
  // A real deployment uses TLS. In the demonstration, all traffic stays on this machine.
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  const { port } = await api.listen();
  const url = `http://127.0.0.1:${port}${bridge.http.prefix}/enroll/claim`;
  try {
    const { ticket, enrolment } = await bridge.enroll.create({
      id: enrolledId,
      project: 'demo',
      format: 'none',
    });
    output.line(`ticket     ${ticket.slice(0, 40)}…`);
    const keys = await createMinionKeys();
    const { requestPort } = await master.status();
    const transport = dialZeromq({ host: '127.0.0.1', requestPort });
    const minion = createMinion({ id: enrolledId, keys, transport, acceptanceWaitMs: 250 });
    const started = minion.start();
    output.line(`claim      ${await claim(url, ticket, keys.publicPem)}`);
    await started;
    const { state } = await bridge.enroll.signedIn(enrolment.number);
    output.line(`enrolment  ${state}`);
    const thief = await createMinionKeys();
    output.line(`same ticket, another key: ${await claim(url, ticket, thief.publicPem)}`);
    return minion;
  } finally {
    await api.close();
  }
}

/**
 * Claims a key in the same way as the script in a machine's user-data.
 * @returns the response
 */
async function claim(url: string, ticket: string, publicPem: string): Promise<string> {
  const body = JSON.stringify({
    ticket,
    id: enrolledId,
    fingerprint: keyFingerprint(publicPem, 'sha256'),
  });
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers, body });
  return `${answer.status} ${await answer.text()}`;
}

/** HTTP endpoint that takes the place of Heat and shows the requests that it receives. */
interface RecordingEndpoint {
  readonly origin: string;
  /** Waits for the next request and returns it as one line. */
  nextRequest(): Promise<string>;
  close(): Promise<void>;
}

/** Starts the endpoint on a free port of this machine. */
async function startRecordingEndpoint(): Promise<RecordingEndpoint> {
  const lines: string[] = [];
  let resolveDone: () => void = () => {};
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.once('end', () => {
      lines.push(`${request.method} ${request.url} ${Buffer.concat(parts).toString('utf8')}`);
      response.end('null');
      resolveDone();
    });
  });
  await listen(server);
  // The cast is safe, because a server that listens on a TCP port has an address of this type.
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    nextRequest: () =>
      new Promise((resolve) => {
        resolveDone = () => {
          const line = lines.shift();
          if (line !== undefined) resolve(line);
        };
        resolveDone();
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/**
 * Registers a handle and makes a minion send a signal to it. Shows the request that the endpoint
 * receives.
 */
async function showSignal(
  output: DemoOutput,
  bridge: Bridge,
  endpoint: RecordingEndpoint,
  minion: Minion | undefined,
): Promise<void> {
  output.title('web1 reports that it is ready: a signal to a handle of Heat');
  const { alias, minions, transport } = await bridge.handles.add({
    alias: 'web-ready',
    minions: ['web1'],
    signal: { endpoint: `${endpoint.origin}/resources/handle/signal`, token: 'known-to-nobody' },
  });
  output.line(
    `handle ${alias} (${transport}) for ${minions.join(', ')}; its token is not sent to minions`,
  );
  await minion?.fire(`heat/${alias}`, { reason: 'booted', data: { port: 80 } });
  output.line(`Heat hears: ${await endpoint.nextRequest()}`);
}

function listen(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
}

const minionIds = ['web1', 'web2', 'db1'];

/**
 * Runs the whole demonstration.
 * @param directory - empty directory for the files of the demonstration
 */
export async function runDemo(output: DemoOutput, directory: string): Promise<void> {
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
    await showStart(output, master, config);
    const starting = await startMinions(output, master, minions);
    await acceptKeys(output, master);
    await Promise.all(starting);
    await runJob(output, master, '*', 'test.ping');
    await runJob(output, master, 'web*', 'demo.greet', ['Heat']);
    await showCommands(output, bridge);
    await showSignals(output, master, minions[0]);
    await showSignal(output, bridge, endpoint, minions[0]);
    minions.push(await showEnrolment(output, master, bridge));
    await output.showNextSteps(directory, config);
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

async function showStart(output: DemoOutput, master: Master, config: MasterConfig): Promise<void> {
  const startedAt = performance.now();
  await master.start();
  const readyMs = Math.round(performance.now() - startedAt);
  const { requestPort, publishPort } = await master.status();
  output.title('A master in this process');
  output.line(
    `ready after ${readyMs} ms, requests on ${requestPort}, publications on ${publishPort}`,
  );
  await output.writeConfig(config, { requestPort, publishPort });
}

/**
 * Starts the minions. Each promise resolves when the minion's key was accepted and the minion
 * receives jobs.
 */
async function startMinions(
  output: DemoOutput,
  master: Master,
  minions: Minion[],
): Promise<Promise<void>[]> {
  output.title('Three minions sign in; their keys wait for an operator');
  const { requestPort } = await master.status();
  const pending = waitForSignIns(master, minionIds);
  const starting: Promise<void>[] = [];
  for (const id of minionIds) {
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
    output.line(`${key.state}  ${key.id.padEnd(5)} ${key.fingerprint.slice(0, 23)}…`);
  }
  return starting;
}

async function acceptKeys(output: DemoOutput, master: Master): Promise<void> {
  output.title('The operator accepts them');
  for (const { id, from, to } of await master.keys.accept({ match: '*' })) {
    output.line(`${id.padEnd(5)} ${from} → ${to ?? 'deleted'}`);
  }
}

async function runJob(
  output: DemoOutput,
  master: Master,
  tgt: string,
  fun: string,
  arg: string[] = [],
): Promise<void> {
  output.title(`A job: ${fun} on '${tgt}'`);
  for await (const update of master.jobs.run({ tgt, fun, arg })) {
    if (update.type === 'published') {
      output.line(`jid ${update.jid} published to ${update.minions.join(', ')}`);
    } else if (update.type === 'return') {
      output.line(`${update.minion.padEnd(5)} ${JSON.stringify(update.return)}`);
    }
  }
}

/**
 * Shows that a permitted event of a minion is published on the event bus, and a forged event is
 * not.
 */
async function showSignals(
  output: DemoOutput,
  master: Master,
  minion: Minion | undefined,
): Promise<void> {
  output.title('web1 emits its own beacon, then forges a sign-in of db1');
  const beacon = nextEvent(master, 'salt/beacon/*');
  await minion?.fire('salt/beacon/web1/load/', { '1m': 0.5 });
  output.line(`on the bus: ${await beacon}`);
  await minion?.fire('salt/auth', { id: 'db1', result: true, act: 'accept' });
  for (const { tag, reason } of await master.events.denials()) {
    output.line(`refused:    ${tag} (${reason})`);
  }
}

/** Waits until each of these minions has tried to sign in, successfully or not. */
async function waitForSignIns(master: Master, ids: readonly string[]): Promise<void> {
  const missing = new Set(ids);
  for await (const { data } of await master.events.subscribe({ match: 'salt/auth' })) {
    missing.delete(String(data.id));
    if (missing.size === 0) return;
  }
}

async function nextEvent(master: Master, match: string): Promise<string> {
  for await (const { tag } of await master.events.subscribe({ match })) return tag;
  return 'nothing';
}

/** Output of the demonstration. */
export interface DemoOutput {
  title(text: string): void;
  line(text: string): void;
  /**
   * Writes a configuration to the directory, so that other commands can be used with the master of
   * the demonstration.
   */
  writeConfig(
    config: MasterConfig,
    ports: { readonly requestPort: number; readonly publishPort: number },
  ): Promise<void>;
  /** Shows commands to try next. On a terminal, waits until the user presses Ctrl-C. */
  showNextSteps(directory: string, config: MasterConfig): Promise<void>;
}

/**
 * Creates the output of the demonstration.
 * @param untilInterrupted - waits until the user at a terminal ends the demonstration
 */
export function createDemoOutput(
  out: Writable & { readonly isTTY?: boolean },
  untilInterrupted: () => Promise<void>,
): DemoOutput {
  const isTerminal = out.isTTY === true;
  const line = (text: string): void => {
    out.write(`  ${text}\n`);
  };
  const title = (text: string): void => {
    out.write(isTerminal ? `\n\u001b[1m${text}\u001b[0m\n` : `\n${text}\n`);
  };
  return {
    title,
    line,
    writeConfig: async (config, { requestPort, publishPort }) => {
      const options = {
        id: config.id,
        interface: config.interface,
        ret_port: requestPort,
        publish_port: publishPort,
        pki_dir: config.pkiDir,
        cachedir: config.cachedir,
        sock_dir: config.sockDir,
        saltbridge: { state_dir: config.stateDir, socket: config.socket },
      };
      await writeFile(path.join(config.rootDir, 'master'), `${JSON.stringify(options, null, 2)}\n`);
    },
    showNextSteps: async (directory) => {
      title('Commands to try next');
      if (isTerminal) {
        line('This master runs until you press Ctrl-C. In another terminal:');
        line(`  bin/saltbridge salt -c ${directory} '*' test.ping`);
        line(`  bin/saltbridge key list -c ${directory}`);
        line(`  bin/saltbridge events -c ${directory}`);
        await untilInterrupted();
        return;
      }
      line('bin/saltbridge master -c DIR     a master with the configuration in DIR/master');
      line("bin/saltbridge salt '*' test.ping");
      line('The README has a short example for each kind of user.');
    },
  };
}
