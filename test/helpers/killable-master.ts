/** Starts a master as a separate process that can be killed, and minions that continue to run. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { loadMasterConfig, type MasterConfig } from '#config';
import { createMinion, dialZeromq, type Minion, type MinionFunction } from '#minion-protocol';
import { MasterProcess } from '../../bench/crash/master-process.ts';
import { freePort } from '../../bench/free-port.ts';
import { within } from './deadline.ts';
import { layMasterKey, minionKeys } from './rsa-keys.ts';
import { temporaryDirectory } from './temporary-directory.ts';

export interface KillableMaster {
  readonly master: MasterProcess;
  /** Path of the master's local socket. */
  readonly socketPath: string;
  /** Connects a minion. It is accepted and subscribed. */
  join(id: string, functions?: Readonly<Record<string, MinionFunction>>): Promise<Minion>;
}

/**
 * Starts a master, which is killed at the end of the test.
 * @param configuration - YAML that contains a line `saltbridge:`
 * @param files - further files beside the configuration, by name
 * @param prepare - called before the master starts
 */
export async function startKillable(
  t: ExecutionContext,
  configuration: string,
  files: Readonly<Record<string, string>> = {},
  prepare: (config: MasterConfig) => Promise<unknown> = async () => {},
): Promise<KillableMaster> {
  const directory = temporaryDirectory(t);
  const [requestPort, publishPort] = [await freePort(), await freePort()];
  const socketPath = path.join(directory, 'run', 's.sock');
  const base = `root_dir: ${directory}\ninterface: 127.0.0.1\nret_port: ${requestPort}\npublish_port: ${publishPort}\npki_dir: /pki\nsock_dir: /run\ncachedir: /cache\nlog_file: /log\nlog_level: info\n`;
  const own = configuration.replace(
    'saltbridge:\n',
    `saltbridge:\n  state_dir: ${directory}/state\n  socket: ${socketPath}\n`,
  );
  writeFileSync(path.join(directory, 'master'), base + own);
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(path.join(directory, name), content);
  }
  layMasterKey(path.join(directory, 'pki'));
  await prepare((await loadMasterConfig(directory)).config);
  let joined = 0;
  const master = new MasterProcess(directory);
  master.spawn();
  t.teardown(() => master.kill());
  await within('the master', master.ready());
  return {
    master,
    socketPath,
    join: async (id, functions = {}) => {
      const transport = dialZeromq({ host: '127.0.0.1', requestPort });
      const minion = createMinion({ id, transport, keys: minionKeys(joined++), functions });
      t.teardown(() => minion.stop());
      await within(`${id} to connect`, minion.start());
      return minion;
    },
  };
}
