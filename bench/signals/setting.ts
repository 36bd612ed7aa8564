/** Starts a master in a process of its own, with handles, and minions that send signals. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectExtension, type ExtensionClient } from '#client';
import { ProtocolError } from '#minion-protocol';
import { Line } from '../crash/line.ts';
import { MasterProcess } from '../crash/master-process.ts';
import { freePort } from '../free-port.ts';
import { acceptAll } from '../swarm/accept.ts';
import { importKey, makeKeyTexts, swarmId } from '../swarm/keys.ts';
import { type Known, SwarmMinion } from '../swarm/minion.ts';

const keyCount = 4;
const pauseMs = 20;

/** Master, minions and handles of a benchmark. */
export interface Setting {
  readonly master: MasterProcess;
  readonly minions: readonly SwarmMinion[];
  /** Client of the bridge, over the master's local socket. */
  readonly bridge: ExtensionClient;
}

export interface SettingOptions {
  readonly rootDir: string;
  readonly minions: number;
  readonly handles: readonly string[];
  /** Origin of the endpoint to which all handles deliver signals. */
  readonly origin: string;
}

/** Starts the master, signs in the minions, and registers handles for all of them. */
export async function openSetting(options: SettingOptions): Promise<Setting> {
  const { rootDir, handles, origin } = options;
  const requestPort = await freePort();
  await writeConfig(rootDir, requestPort, origin);
  const keys = await makeKeyTexts(keyCount);
  await acceptAll(path.join(rootDir, 'pki'), options.minions, keys);
  const master = new MasterProcess(rootDir);
  master.spawn();
  await master.ready();
  const imported = keys.map(importKey);
  const minions: SwarmMinion[] = [];
  let known: Known | undefined;
  for (let index = 0; index < options.minions; index += 1) {
    const [key] = imported.slice(index % keyCount);
    if (key === undefined) throw new Error('no key');
    const minion = new SwarmMinion(swarmId(index), index, key, new Line(requestPort));
    known = await minion.signIn(known);
    minions.push(minion);
  }
  const bridge = connectExtension({ socketPath: path.join(rootDir, 'run', 's.sock') }, 'bridge');
  for (const alias of handles) {
    const signal = { endpoint: `${origin}/${alias}`, token: 'token' };
    const registration = { alias, minions: minions.map(({ id }) => id), signal };
    await bridge.call('handles.add', { registration });
  }
  return { master, minions, bridge };
}

/**
 * Sends a signal. Sends the same bytes again until there is a reply, as Salt's clients do.
 * @returns whether the signal was acknowledged; a reply that makes a minion sign in again is not an
 * acknowledgement
 */
export async function emit(
  minion: SwarmMinion,
  handle: string,
  number: number,
  isOver: () => boolean,
): Promise<boolean> {
  const data = { data: { minion: minion.id, number } };
  const sealed = minion.seal({ cmd: '_minion_event', tag: `heat/${handle}`, data, pretag: null });
  while (!isOver()) {
    try {
      const answer = await minion.send(sealed);
      return answer === null;
    } catch (error) {
      if (error instanceof ProtocolError) return false;
    }
    await sleep(pauseMs);
  }
  return false;
}

async function writeConfig(rootDir: string, requestPort: number, origin: string): Promise<void> {
  const config = {
    root_dir: rootDir,
    interface: '127.0.0.1',
    ret_port: requestPort,
    publish_port: await freePort(),
    pki_dir: '/pki',
    sock_dir: '/run',
    cachedir: '/cache',
    log_file: '/log',
    pidfile: '/pid',
    log_level: 'info',
    saltbridge: {
      state_dir: '/state',
      socket: '/run/s.sock',
      limits: { requests_per_second: 0, events_per_second: 0 },
      acl: { signals: [{ tag: 'heat/*', minions: '*' }] },
      bridge: {
        handles: handleOptions(origin, 0.3),
      },
    },
  };
  await writeFile(path.join(rootDir, 'master'), JSON.stringify(config));
}

/**
 * Returns options of the bridge for a service that sometimes fails, without a limit on the number
 * of signals.
 */
export function handleOptions(origin: string, timeoutSeconds: number): object {
  return {
    endpoints: [origin],
    timeout: timeoutSeconds,
    same_id_wait: 0,
    retry_initial_delay: 0.05,
    retry_max_delay: 0.5,
    per_minion: 1_000_000,
    per_stack: 1_000_000,
    entries: 1_000_000,
  };
}
