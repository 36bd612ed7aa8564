/**
 * The directory for Salt's own clients: their configuration, the key of the master's account, and
 * the files that they check before they connect. Only the master's account can access it.
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

/** Maximum length of a Unix socket path, in bytes. */
const maxSocketPathBytes = 107;

/** Form of a key: 56 random bytes in base64, like Salt's own key. Clients send the whole key. */
const keyForm = /^[A-Za-z0-9+/]{75}=$/;

/** Paths of the files for Salt's clients. Their names are fixed by Salt. */
export interface ClientPaths {
  /** Directory to use with `-c` and `SALT_CLIENT_CONFIG`. */
  readonly directory: string;
  readonly config: string;
  /**
   * Configuration for `salt-run` that makes it send runners to the master instead of running them
   * itself.
   */
  readonly runnerConfig: string;
  readonly cache: string;
  readonly key: string;
  /** Socket from which clients read all events. */
  readonly events: string;
  /** Socket to which clients write events. */
  readonly firing: string;
  /**
   * Files that exist while the master is running. Salt's clients look for them to recognise a
   * running master.
   */
  readonly marks: readonly string[];
}

/**
 * Returns the paths of the files.
 * @param account - account of the master, which owns all of them
 */
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

/**
 * Returns the name of the account of this process.
 * @throws MasterError ERR_SOCKET
 */
export function ownAccount(): string {
  const account = processUser();
  if (account !== null) return account;
  const problem =
    "cannot serve Salt's clients: the master runs as a user id without a name, and the key file is named after it";
  throw new MasterError('ERR_SOCKET', problem);
}

/**
 * Creates the directories, the key if it is missing, and the returner module. Clients read the job
 * cache with this module.
 * @returns the key
 * @throws MasterError ERR_SOCKET if the paths are too long; the system's errors
 */
export async function prepareClientFiles(paths: ClientPaths): Promise<string> {
  if (Buffer.byteLength(paths.firing) > maxSocketPathBytes) {
    const problem = `${paths.firing}: a socket path may have at most ${maxSocketPathBytes} bytes; set state_dir to a shorter path`;
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

/** Reads the returner module from the installed package. */
function readReturner(): Promise<string> {
  // The path is relative to `dist/localclient/`.
  return readFile(new URL('../../clients/localclient/saltbridge.py', import.meta.url), 'utf8');
}

/** Settings of the master that the clients' configuration contains. */
export interface ClientConfig extends Pick<ExtensionHost, 'config' | 'reloadable'> {
  readonly account: string;
  readonly port: number;
}

/**
 * Log-in options that make `salt-run` send its calls to the master. With these options, `salt-run`
 * sends the key of the master's account in place of a token.
 */
const remoteRunners = { eauth: 'saltbridge', token: 'key' };

/**
 * Modules that Salt's clients would run in their own process, with the files of a salt-master.
 * These files do not exist here, so most functions would return an empty result. The clients
 * therefore do not load these modules, and report an error that names the function.
 */
const disabledModules = {
  disable_wheels: ['config', 'error', 'file_roots', 'key', 'minions', 'pillar_roots'],
  disable_runners: [
    'auth',
    'bgp',
    'cache',
    'cloud',
    'config',
    'fileserver',
    'git_pillar',
    'match',
    'mine',
    'net',
    'pillar',
    'queue',
    'reactor',
    'saltutil',
    'ssh',
    'thin',
    'winrepo',
  ],
};

/**
 * Writes the configuration files. Also writes the files by which clients recognise a running
 * master.
 */
export async function writeClientConfig(paths: ClientPaths, config: ClientConfig): Promise<void> {
  const options = clientOptions(paths, config);
  const local = configText({ ...options, ...disabledModules });
  await writeFileAtomically(paths.config, local, 0o600);
  await writeFileAtomically(
    paths.runnerConfig,
    configText({ ...options, ...remoteRunners }),
    0o600,
  );
  for (const mark of paths.marks) await writeFile(mark, '', { mode: 0o600 });
}

/** Removes the files whose existence shows clients that the master is running. */
export async function removeMarks({ marks }: ClientPaths): Promise<void> {
  for (const mark of marks) await rm(mark, { force: true });
}

/**
 * Removes all files, including the key.
 * @returns whether any file existed
 */
export async function removeClientFiles({ directory }: ClientPaths): Promise<boolean> {
  try {
    await rm(directory, { recursive: true });
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** Returns the options that all clients need. */
function clientOptions(
  paths: ClientPaths,
  { account, port, config, reloadable }: ClientConfig,
): Readonly<Record<string, unknown>> {
  const { timeout, gatherJobTimeout, nodegroups } = { ...config, ...reloadable() };
  const inside = (name: string): string => path.join(paths.directory, name);
  return {
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
}

/** Returns the text of a configuration. The values are JSON, which is valid YAML. */
function configText(options: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(options).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  return `# For Salt's own clients. The master writes this file at each start.\n${lines.join('\n')}\n`;
}
