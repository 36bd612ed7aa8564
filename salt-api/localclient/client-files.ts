/**
 * The directory that Salt's own clients are pointed to: their configuration, the key of the master's
 * account, and what they look for before they connect. It is the master's account's alone.
 */

import { randomBytes } from 'node:crypto';
import { chmod, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type ExtensionHost, MasterError } from '#master';
import {
  isMissing,
  makeDirectory,
  processUser,
  readTextIfPresent,
  writeFileAtomically,
} from '#runtime';

/** The longest path of a Unix socket. */
const maxSocketPathBytes = 107;

/** 56 random bytes in base64, as Salt's own: clients send all of it. */
const keyForm = /^[A-Za-z0-9+/]{75}=$/;

/** The names of {@link clientPaths}, which Salt's clients expect. */
export interface ClientPaths {
  /** For `-c` and `SALT_CLIENT_CONFIG`. */
  readonly directory: string;
  readonly config: string;
  /** The same for `salt-run`, which then lets the master run its runners. */
  readonly runnerConfig: string;
  readonly cache: string;
  readonly key: string;
  /** Everything that happens, to whoever connects. */
  readonly events: string;
  /** Where clients fire events. */
  readonly firing: string;
  /** Clients publish nothing where these are missing. */
  readonly marks: readonly string[];
}

/** @param account of the master: the owner of everything */
export function clientPaths(stateDir: string, account: string): ClientPaths {
  const directory = path.join(stateDir, 'localclient');
  const run = path.join(directory, 'run');
  const cache = path.join(directory, 'cache');
  return {
    directory,
    config: path.join(directory, 'master'),
    runnerConfig: path.join(directory, 'salt-run', 'master'),
    cache,
    key: path.join(cache, `.${account}_key`),
    events: path.join(run, 'master_event_pub.ipc'),
    firing: path.join(run, 'master_event_pull.ipc'),
    marks: ['publish_pull.ipc', 'workers.ipc'].map((name) => path.join(run, name)),
  };
}

/** The name of the account that this process runs as. @throws MasterError ERR_SOCKET */
export function ownAccount(): string {
  const account = processUser();
  if (account !== null) return account;
  const problem = "the master's account has no name, after which Salt's clients look for their key";
  throw new MasterError('ERR_SOCKET', problem);
}

/**
 * Makes the directories, the key where there is none, and the returner through which clients read the
 * job cache.
 * @returns the key
 * @throws MasterError ERR_SOCKET where the paths are too long; the system's errors
 */
export async function prepareClientFiles(paths: ClientPaths): Promise<string> {
  if (Buffer.byteLength(paths.firing) > maxSocketPathBytes) {
    const problem = `${paths.firing}: longer than ${maxSocketPathBytes} bytes; set state_dir to a shorter path`;
    throw new MasterError('ERR_SOCKET', problem);
  }
  for (const directory of ['', 'cache', 'pki', 'returners', 'run', 'salt-run']) {
    const whole = path.join(paths.directory, directory);
    await makeDirectory(whole, 0o700);
    await chmod(whole, 0o700);
  }
  const returner = path.join(paths.directory, 'returners', 'saltbridge.py');
  await writeFileAtomically(returner, await readReturner(), 0o600);
  const kept = await readTextIfPresent(paths.key);
  if (kept !== undefined && keyForm.test(kept)) {
    await chmod(paths.key, 0o600);
    return kept;
  }
  const key = randomBytes(56).toString('base64');
  await writeFileAtomically(paths.key, key, 0o600);
  return key;
}

/** From the package. */
function readReturner(): Promise<string> {
  // From `dist/localclient/`.
  return readFile(new URL('../../clients/localclient/saltbridge.py', import.meta.url), 'utf8');
}

/** What the configuration of clients says of the master. */
export interface ClientConfig extends Pick<ExtensionHost, 'config' | 'reloadable'> {
  readonly account: string;
  readonly port: number;
}

/** With a log-in `salt-run` goes to the master; it then sends the key in its place. */
const remoteRunners = 'eauth: "saltbridge"\ntoken: "key"\n';

/** Writes the configurations, and what clients take for a master that runs. */
export async function writeClientConfig(paths: ClientPaths, config: ClientConfig): Promise<void> {
  const text = clientConfigText(paths, config);
  await writeFileAtomically(paths.config, text, 0o600);
  await writeFileAtomically(paths.runnerConfig, `${text}${remoteRunners}`, 0o600);
  for (const mark of paths.marks) await writeFile(mark, '', { mode: 0o600 });
}

/** Clients say from then on that no master runs. */
export async function removeMarks({ marks }: ClientPaths): Promise<void> {
  for (const mark of marks) await rm(mark, { force: true });
}

/** Takes away everything, the key with it. @returns whether there was anything */
export async function removeClientFiles({ directory }: ClientPaths): Promise<boolean> {
  try {
    await rm(directory, { recursive: true });
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** JSON is YAML, so that no value can be taken for something else. */
function clientConfigText(
  paths: ClientPaths,
  { account, port, config, reloadable }: ClientConfig,
): string {
  const { timeout, gatherJobTimeout, nodegroups } = { ...config, ...reloadable() };
  const inside = (name: string): string => path.join(paths.directory, name);
  const options = {
    user: account,
    interface: '127.0.0.1',
    ret_port: port,
    transport: 'zeromq',
    root_dir: '/',
    cachedir: paths.cache,
    sock_dir: inside('run'),
    pki_dir: inside('pki'),
    log_file: inside('client.log'),
    key_logfile: inside('client.log'),
    master_job_cache: 'saltbridge',
    returner_dirs: [inside('returners')],
    runner_returns: false,
    order_masters: false,
    saltbridge_socket: config.socket,
    timeout,
    gather_job_timeout: gatherJobTimeout,
    nodegroups,
  };
  const lines = Object.entries(options).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  return `# For Salt's own clients. The master writes this file at each start.\n${lines.join('\n')}\n`;
}
