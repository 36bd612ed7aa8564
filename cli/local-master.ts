import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Command, Option } from 'commander';
import {
  connectExtension,
  connectLocalMaster,
  connectMaster,
  type ExtensionClient,
  RemoteError,
  type RemoteMasters,
} from '#client';
import {
  type ClusterReceipt,
  copyMaster,
  exportStore,
  importStore,
  initCluster,
  joinCluster,
  leaveCluster,
  type RefoundReceipt,
  type RestorePoint,
  refoundCluster,
  type TransferReceipt,
} from '#cluster';
import {
  backupOfflineStore,
  type FunctionsApi,
  inspectMasterStore,
  type JobsApi,
  loadMasterConfig,
  type MasterApi,
  type MasterConfig,
  type OfflineKeys,
  openOfflineKeys,
  type RunRequest,
  resolveMasterConfig,
  restoreMasterStore,
} from '#master';
import type { BackupReceipt, RestoreReceipt, StoreInspection } from '#store';
import type { CommandDefaults } from './command-defaults.ts';
import { CommandError, errorCodeOf } from './errors.ts';

/**
 * The configuration of one master.
 * @throws ConfigError when it cannot be read; CommandError ERR_TENANTS when it is that of several
 */
async function loadSingleMasterConfig(configDirectory: string): Promise<MasterConfig> {
  const { config } = await loadMasterConfig(configDirectory);
  const directories = Object.values(config.tenants);
  if (directories.length === 0) return config;
  const choices = directories.map((it) => `-c ${path.resolve(configDirectory, it)}`).join(', ');
  throw new CommandError('ERR_TENANTS', `${config.confFile} has tenants; say which: ${choices}`);
}

/**
 * The masters that the environment names, for commands that are not run on a master's host.
 * @throws CommandError ERR_ARGS where the file of certificates cannot be read
 */
function remoteMastersOf(environment: NodeJS.ProcessEnv): RemoteMasters | undefined {
  const { SALTBRIDGE_URL = '', SALTBRIDGE_TOKEN: token, SALTBRIDGE_CA: file } = environment;
  const urls = SALTBRIDGE_URL.split(/[\s,]+/).filter((url) => url !== '');
  if (urls.length === 0) return undefined;
  const access = token === undefined ? {} : { token };
  return { urls, ...access, ...(file === undefined ? {} : { ca: readCertificates(file) }) };
}

/** @throws CommandError ERR_ARGS for an address that is none, or over which a token would go in the clear */
function connectElsewhere<T>(connect: () => T): T {
  try {
    return connect();
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new CommandError('ERR_ARGS', `SALTBRIDGE_URL: ${cause.message}`);
  }
}

function readCertificates(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const reason = errorCodeOf(cause) ?? String(cause);
    throw new CommandError('ERR_ARGS', `SALTBRIDGE_CA: ${file} cannot be read (${reason})`);
  }
}

/** How commands reach the master of a configuration directory. */
export interface LocalMaster {
  /** The running master that uses this configuration directory. */
  readonly openApi: (configDirectory: string) => Promise<MasterApi>;
  /** An extension of that master, such as `bridge`. */
  readonly openExtension: (configDirectory: string, extension: string) => Promise<ExtensionClient>;
  /** The keys of that master, or, where none runs, those in its PKI directory. */
  readonly openKeys: (configDirectory: string) => Promise<OfflineKeys>;
  /** The store of that master, whether it runs or not. */
  readonly openStore: (configDirectory: string) => Promise<StoreAccess>;
  /** The cluster of that configuration directory, for a master that does not run. */
  readonly openCluster: (configDirectory: string) => Promise<OfflineCluster>;
  /** What that configuration says of commands named as Salt's. */
  readonly commandDefaults: (configDirectory: string) => Promise<CommandDefaults>;
}

/**
 * The running master over its local socket, or, where none runs, its files. A configuration is read
 * once. Where the environment names masters elsewhere (`SALTBRIDGE_URL`), those are asked over HTTPS;
 * stores and clusters that do not run are those of this host all the same.
 */
export function createLocalMaster(environment: NodeJS.ProcessEnv = process.env): LocalMaster {
  const configs = new Map<string, Promise<MasterConfig>>();
  const configOf = (directory: string): Promise<MasterConfig> => {
    const config = configs.get(directory) ?? loadSingleMasterConfig(directory);
    configs.set(directory, config);
    return config;
  };
  return {
    openApi: async (directory) => {
      const remote = remoteMastersOf(environment);
      if (remote !== undefined) return connectElsewhere(() => connectMaster(remote));
      const { socket } = await configOf(directory);
      return connectLocalMaster({ socketPath: socket });
    },
    openExtension: async (directory, extension) => {
      const remote = remoteMastersOf(environment);
      if (remote !== undefined) {
        return connectElsewhere(() => connectExtension(remote, extension));
      }
      const { socket } = await configOf(directory);
      return connectExtension({ socketPath: socket }, extension);
    },
    openKeys: async (directory) => {
      const remote = remoteMastersOf(environment);
      if (remote === undefined) return openKeys(await configOf(directory));
      const { keys } = connectElsewhere(() => connectMaster(remote));
      return { keys, close: async () => {} };
    },
    openStore: async (directory) => openStore(await configOf(directory)),
    openCluster: async (directory) => openCluster(await configOf(directory)),
    commandDefaults: async (directory) => {
      const isElsewhere = remoteMastersOf(environment) !== undefined && !existsSync(directory);
      return isElsewhere ? resolveMasterConfig({}) : configOf(directory);
    },
  };
}

/**
 * The keys of the running master, or, where none runs, those in its PKI directory.
 * @throws KeyError ERR_PKI_DIR, RemoteError when the socket is there but not for us
 */
async function openKeys(config: MasterConfig): Promise<OfflineKeys> {
  const api = connectLocalMaster({ socketPath: config.socket });
  try {
    await api.status();
  } catch (error) {
    if (!isMasterNotRunning(error)) throw error;
    return openOfflineKeys(config);
  }
  return { keys: api.keys, close: async () => {} };
}

/** Whether a call failed because no master listens on the socket. */
export function isMasterNotRunning(error: unknown): boolean {
  const code = error instanceof RemoteError ? errorCodeOf(error.cause) : undefined;
  return code === 'ENOENT' || code === 'ECONNREFUSED';
}

// The store of a master, whether the master runs or not.

/** What `saltbridge store` asks for. */
export interface StoreAccess {
  /** Where it lies. */
  readonly directory: string;
  /** By the running master, or, where none runs, from the files. */
  backup(target: string): Promise<BackupReceipt>;
  /** Only where no master runs. */
  restore(file: string): Promise<RestoreReceipt>;
  /** Reads it from one end to the other. */
  inspect(): Promise<StoreInspection>;
  /** With keys and files, into a new directory. */
  export(target: string): Promise<TransferReceipt>;
  /** Only where there is none yet. */
  import(source: string): Promise<TransferReceipt>;
  /** What lies where another configuration directory says, which no running master uses. */
  copy(configDirectory: string): Promise<TransferReceipt>;
}

/** What a master that does not run does with its cluster. */
interface OfflineCluster {
  init(): Promise<ClusterReceipt>;
  join(ticket: string): Promise<ClusterReceipt>;
  leave(): Promise<ClusterReceipt>;
  refound(point?: RestorePoint): Promise<RefoundReceipt>;
}

function openCluster(config: MasterConfig): OfflineCluster {
  return {
    init: () => initCluster(config),
    join: (ticket) => joinCluster(config, ticket),
    leave: () => leaveCluster(config),
    refound: (point) => refoundCluster(config, {}, point),
  };
}

function openStore(config: MasterConfig): StoreAccess {
  return {
    directory: path.join(config.stateDir, 'store'),
    backup: async (target) => {
      const wholePath = path.resolve(target);
      try {
        return await connectLocalMaster({ socketPath: config.socket }).store.backup(wholePath);
      } catch (error) {
        if (!isMasterNotRunning(error)) throw error;
        return backupOfflineStore(config, wholePath);
      }
    },
    restore: (file) => restoreMasterStore(config, file),
    inspect: () => inspectMasterStore(config),
    export: (target) => exportStore(config, target),
    import: (source) => importStore(config, source),
    copy: async (directory) => copyMaster(config, await loadSingleMasterConfig(directory)),
  };
}

// Who a subcommand acts as: the master's own user, or one who logs in [salt/cli/salt.py].

// The saved token of the person at the command line.

const tokenPattern = /^[0-9a-f]{64}$/;

/** The token in a file that only its owner can read; `undefined` if there is none such. */
async function readTokenFile(file: string): Promise<string | undefined> {
  try {
    const { mode } = await stat(file);
    if ((mode & 0o077) !== 0) return undefined;
    const token = (await readFile(file, 'utf8')).trim();
    return tokenPattern.test(token) ? token : undefined;
  } catch (error) {
    if (errorCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes it anew, 0600 from the first byte on; a file or link that is there is replaced. */
async function writeTokenFile(file: string, token: string): Promise<void> {
  const fresh = `${file}.${randomBytes(8).toString('hex')}`;
  const handle = await open(fresh, 'wx', 0o600);
  try {
    await handle.writeFile(`${token}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(fresh, file).catch(async (error: unknown) => {
    await rm(fresh, { force: true });
    throw error;
  });
}

/** Who came by sudo is told, for the job's user and `sudo_acl`; anybody else is known to the master. */
export function sudoUser(): Pick<RunRequest, 'user'> {
  const { SUDO_USER: name } = process.env;
  return name === undefined ? {} : { user: `sudo_${name}` };
}

/** How a person at the command line is known and asked. */
export interface LoginContext extends Pick<LocalMaster, 'openApi'> {
  /** Asks a person; `undefined` where there is none. */
  readonly ask: ((question: string) => Promise<string>) | undefined;
  /** The same, and shows nothing of the answer. */
  readonly askSecret: ((question: string) => Promise<string>) | undefined;
  /** Where the token of whoever uses the command line is kept. */
  readonly tokenFile: string;
}

/** What a command may use. */
export interface CommandSession {
  readonly jobs: JobsApi;
  readonly runners: FunctionsApi;
  /** Ends what the command began; call it in any case. */
  close(): Promise<void>;
}

/**
 * The master's interface, or with `-a` that of a user: by the token that was kept, unless a user
 * or a password is named, else by logging in.
 * @throws CommandError ERR_ARGS; RemoteError, ERR_EAUTH among others
 */
export async function openCommandSession(
  context: LoginContext,
  options: LoginOptions,
): Promise<CommandSession> {
  const api = await context.openApi(options.configDir);
  const eauth = options.auth ?? options.eauth ?? options.externalAuth;
  if (eauth === undefined) {
    if (options.makeToken !== true)
      return { jobs: api.jobs, runners: api.runners, close: async () => {} };
    throw new CommandError('ERR_ARGS', '-T needs -a: by which eauth to log in');
  }
  const kept = await findSavedToken(api, eauth, context, options);
  if (kept !== undefined) return createUserSession(api, kept, async () => {});
  const { token } = await api.logins.login({ eauth, ...(await askCredentials(context, options)) });
  if (options.makeToken === true) {
    await writeTokenFile(context.tokenFile, token);
    return createUserSession(api, token, async () => {});
  }
  return createUserSession(api, token, async () => {
    await api.logins.logout(token);
  });
}

/** The token of the file, if it is good for this. */
async function findSavedToken(
  api: MasterApi,
  eauth: string,
  { tokenFile }: LoginContext,
  { makeToken, username, password }: LoginOptions,
): Promise<string | undefined> {
  if (makeToken === true || username !== undefined || password !== undefined) return undefined;
  const token = await readTokenFile(tokenFile);
  if (token === undefined) return undefined;
  try {
    return (await api.logins.identify(token)).eauth === eauth ? token : undefined;
  } catch (error) {
    if (errorCodeOf(error) === 'ERR_EAUTH_TOKEN') return undefined;
    throw error;
  }
}

async function askCredentials(
  { ask, askSecret }: LoginContext,
  options: LoginOptions,
): Promise<{ readonly username: string; readonly password: string }> {
  const username = options.username ?? (await ask?.('username: '));
  const password = options.password ?? (await askSecret?.('password: '));
  if (username !== undefined && password !== undefined) return { username, password };
  throw new CommandError(
    'ERR_ARGS',
    '--username and --password are needed: there is nobody to ask',
  );
}

function createUserSession(
  api: MasterApi,
  token: string,
  close: () => Promise<void>,
): CommandSession {
  const { jobs, runners } = api.asUser(token);
  return { jobs: { ...api.jobs, ...jobs }, runners: { ...api.runners, ...runners }, close };
}

// Log-in options [salt utils/parsers.py EAuthMixIn].

/** As commander names them. */
export interface LoginOptions {
  readonly configDir: string;
  readonly auth?: string;
  /** Salt's other names for it. */
  readonly eauth?: string;
  readonly externalAuth?: string;
  readonly makeToken?: boolean;
  readonly username?: string;
  readonly password?: string;
}

/** Adds them. */
export function addLoginOptions(command: Command): Command {
  return command
    .option('-a, --auth <eauth>', "log in with this eauth and act with the user's rights")
    .addOption(new Option('--eauth <eauth>').hideHelp())
    .addOption(new Option('--external-auth <eauth>').hideHelp())
    .option('-T, --make-token', 'log in, and store the token for later commands')
    .option('--username <name>', 'name of the user (default: ask for it)')
    .option(
      '--password <text>',
      'password of the user; visible in the process list (default: ask for it)',
    );
}
