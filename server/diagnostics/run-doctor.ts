/**
 * Examines the configuration, the files and the machine of a master. The master need not be
 * running.
 */

import { generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { createPolicy, hasRules, type RuleAction } from '#acl';
import {
  type CheckedConfig,
  type ConfigWarning,
  checkMasterConfig,
  formWorld,
  type MasterConfig,
  placeOf,
  rulesOf,
  serviceOf,
  withoutPlace,
} from '#config';
import { type MasterApi, readPins, version } from '#master';
import { jidTime } from '#minion-protocol';
import { codeOf, isMissing, readTextIfPresent } from '#runtime';
import { engineVersion, readStore, type Store, StoreError } from '#store';
import { checkCluster, checkClusterCertificates } from './cluster.ts';
import { surveyKeys } from './key-survey.ts';
import { checkMinionKeys, checkOwnKeys } from './keys.ts';
import {
  checkClock,
  checkDisk,
  checkFileLimit,
  checkPermissions,
  checkVersions,
} from './machine.ts';
import {
  type Check,
  type DiagnosticsInput,
  type DiskRoom,
  type DoctorCode,
  type DoctorFinding,
  type DoctorReport,
  formatList,
  type RunningMaster,
  type StoreContent,
  type SystemInfo,
} from './report.ts';

const maxSocketPathBytes = 107;

/** Checks the configuration for mistakes and risky settings. */
async function checkConfig({ config: survey }: DiagnosticsInput): Promise<DoctorFinding[]> {
  const { config, problems, warnings } = survey;
  const findings: DoctorFinding[] = problems.map((problem) => ({
    code: 'config-problem',
    severity: 'error',
    subject: placeOf(problem),
    problem: `The master does not start: ${withoutPlace(problem)}.`,
    remedy: 'Correct the configuration. docs/errors.md describes the code of the error.',
  }));
  for (const warning of warnings) {
    findings.push({
      code: 'config-warning',
      severity: 'warning',
      subject: placeOf(warning),
      problem: `${withoutPlace(warning)}.`,
      remedy: remedyOf(warning.kind),
    });
  }
  if (Buffer.byteLength(config.socket) > maxSocketPathBytes) {
    findings.push({
      code: 'socket-path',
      severity: 'error',
      subject: config.socket,
      problem: `The path of a socket can have at most ${maxSocketPathBytes} bytes.`,
      remedy: 'Set sock_dir, or socket under saltbridge:, to a shorter path.',
    });
  }
  return [...findings, ...riskyModes(survey)];
}

function riskyModes({ config, settings }: CheckedConfig): DoctorFinding[] {
  const findings: DoctorFinding[] = [];
  if (settings.get('open_mode')?.value === true) {
    findings.push({
      code: 'open-mode',
      severity: 'error',
      subject: 'open_mode',
      problem: 'Any machine can impersonate any minion.',
      remedy: 'Remove open_mode as soon as keys have been exchanged.',
    });
  }
  if (config.autoAccept) {
    findings.push({
      code: 'auto-accept',
      severity: 'warning',
      subject: 'auto_accept',
      problem: 'Every machine that reaches the port becomes a minion.',
      remedy: 'Accept keys manually, or with autosign_file or autosign_grains_dir.',
    });
  }
  return findings;
}

function remedyOf(kind: ConfigWarning['kind']): string {
  if (kind === 'narrowed' || kind === 'rights')
    return 'Rewrite each expression so that it has the intended meaning.';
  if (kind === 'no-login') return 'Correct the options of this back end, or remove it.';
  if (kind === 'bounded') return 'Change the two options so that they are compatible.';
  return 'Remove options without effect. saltbridge migrate check lists alternatives.';
}

/**
 * Reports a finding if the service for Salt's own clients is enabled (`saltbridge localclient
 * enable`), because its key grants all permissions.
 */
async function checkLocalClient({ config }: DiagnosticsInput): Promise<DoctorFinding[]> {
  const directory = path.join(config.config.stateDir, 'localclient');
  const text = await readTextIfPresent(path.join(directory, 'master'));
  if (text === undefined) return [];
  const [, port = '?'] = /^ret_port: (\d+)$/m.exec(text) ?? [];
  return [
    {
      code: 'localclient-enabled',
      severity: 'warning',
      subject: directory,
      problem: `Salt's own clients are served at 127.0.0.1:${port}. An account that can read the key in cache/ has every right.`,
      remedy: 'If no such client is used, run saltbridge localclient disable.',
    },
  ];
}

/**
 * Checks that the master can listen on `publish_port` and `ret_port`. If the master is running, it
 * uses these ports itself, so this check is skipped.
 */
async function checkPorts({ config, running }: DiagnosticsInput): Promise<DoctorFinding[]> {
  if (running !== undefined) return [];
  const { publishPort, retPort } = config.config;
  const host = hostOf(config.config);
  const findings: DoctorFinding[] = [];
  for (const port of new Set([publishPort, retPort])) {
    const failure = port === 0 ? undefined : await tryBind(host, port);
    if (failure !== undefined) findings.push(describe(host, port, failure));
  }
  return findings;
}

/**
 * Returns the address on which the master listens. If none is set, this is Salt's default for IPv4
 * or IPv6, according to the option `ipv6`.
 */
function hostOf({ interface: host, ipv6 }: MasterConfig): string {
  return ipv6 === true && host === '0.0.0.0' ? '::' : host;
}

/**
 * Tries to listen on a port.
 * @returns the error code of the system if this fails
 */
async function tryBind(host: string, port: number): Promise<string | undefined> {
  const server = createServer((connection) => connection.destroy());
  server.listen({ host, port, exclusive: true });
  try {
    await once(server, 'listening');
  } catch (error) {
    return codeOf(error) ?? 'unknown';
  }
  server.close();
  await once(server, 'close');
  return undefined;
}

function describe(host: string, port: number, failure: string): DoctorFinding {
  const subject = `${host}:${port}`;
  return failure === 'EADDRINUSE'
    ? {
        code: 'port-in-use',
        severity: 'error',
        subject,
        problem: 'Another program uses the port, and it is not a master with this configuration.',
        remedy: `Stop that program (salt-master?); ss -ltnp 'sport = :${port}' shows it.`,
      }
    : {
        code: 'port-unavailable',
        severity: 'error',
        subject,
        problem: `The master cannot listen on this port (${failure}).`,
        remedy:
          'Check that the machine has the address in the option `interface`, and that the account may listen on this port.',
      };
}

const latestProtocol = 3;

/**
 * Finds accepted ids that have never signed in with protocol 3. Any other accepted minion can forge
 * the returns of these ids.
 */
async function checkProtocol(patient: DiagnosticsInput): Promise<DoctorFinding[]> {
  const ids = lowIds(patient);
  if (ids.length === 0) return [];
  const { minimumAuthVersion } = patient.config.config;
  const isLockedOut = minimumAuthVersion !== 'auto' && minimumAuthVersion >= latestProtocol;
  return [
    {
      code: 'protocol-low',
      severity: 'warning',
      subject: formatList(ids),
      problem: isLockedOut
        ? 'These ids have never signed in with protocol 3, and lower versions are rejected.'
        : 'These ids have never signed in with protocol 3: other minions could send returns in their name.',
      remedy: 'Update the minions (3006.17, 3007.9 or later). Delete ids that are no longer used.',
    },
  ];
}

function lowIds({ keys, running, store }: DiagnosticsInput): string[] {
  if (running !== undefined) {
    return running.keys
      .filter(({ state, protocol }) => state === 'accepted' && protocol < latestProtocol)
      .map(({ id }) => id);
  }
  if (store === undefined) return [];
  return keys.keys
    .filter(({ place, id }) => place === 'accepted' && (store.pins.get(id) ?? 0) < latestProtocol)
    .map(({ id }) => id);
}

const actions: readonly RuleAction[] = ['publish', 'runner', 'wheel'];

/**
 * Finds reactor files for which no rule permits any action. All actions of such a file are denied.
 */
async function checkReactions({
  config: survey,
  world,
}: DiagnosticsInput): Promise<DoctorFinding[]> {
  const { config } = survey;
  const references = new Set(config.reactor.flatMap(({ sls }) => sls));
  if (references.size === 0) return [];
  // Only the existence of a rule matters, so check a target that covers all minions.
  const policy = createPolicy(rulesOf(config), { ...formWorld, now: world.now });
  return [...references]
    .filter((reference) => !actions.some((it) => hasRules(serviceOf(reference), it, policy)))
    .map((reference) => ({
      code: 'reaction-powerless',
      severity: 'warning',
      subject: reference,
      problem: 'No rule permits any action to this reactor file, so all its actions are denied.',
      remedy:
        'Add a rule whose subject is service: reaction:<file>. saltbridge migrate check derives such rules where possible.',
    }));
}

/** Finds connected minions that will not reconnect by themselves after a restart of the master. */
async function checkRestart({ running }: DiagnosticsInput): Promise<DoctorFinding[]> {
  const ids = running?.minions.filter((it) => it.needsOwnRestart).map(({ id }) => id) ?? [];
  if (ids.length === 0) return [];
  return [
    {
      code: 'minion-needs-restart',
      severity: 'warning',
      subject: formatList(ids),
      problem:
        'After a restart of the master, these minions do not reconnect: they run Salt 3007 or later over TCP or WebSocket.',
      remedy: 'Restart each minion after the master, or let them use ZeroMQ.',
    },
  ];
}

/**
 * Age above which an undelivered signal is reported, in seconds. Services usually restart in less
 * time.
 */
const slowOutboxSeconds = 900;

/** Finds signals that could not be delivered to a service. */
async function checkOutbox({ running }: DiagnosticsInput): Promise<DoctorFinding[]> {
  const figures = running?.status.extensions?.bridge ?? {};
  const dead = figures['outbox_signals dead'] ?? 0;
  const oldest = figures.outbox_oldest_seconds ?? 0;
  const findings: DoctorFinding[] = [];
  if (dead > 0) {
    findings.push({
      code: 'outbox-dead',
      severity: 'warning',
      subject: 'outbox',
      problem: `${dead} signals could not be delivered, and are no longer retried.`,
      remedy:
        'saltbridge bridge outbox list --dead shows the reason. Then run saltbridge bridge outbox retry, or drop.',
    });
  }
  if (oldest > slowOutboxSeconds) {
    findings.push({
      code: 'outbox-slow',
      severity: 'warning',
      subject: 'outbox',
      problem: `The oldest signal has waited for ${Math.round(oldest)} seconds.`,
      remedy:
        'saltbridge bridge outbox list shows the responses of the service. Check that service.',
    });
  }
  return findings;
}

/** Checks the connection to etcd or ZooKeeper, which stores the values of data spaces. */
async function checkCoordinator({ running }: DiagnosticsInput): Promise<DoctorFinding[]> {
  if (running?.status.extensions?.bridge?.data_coordinator_connected !== 0) return [];
  return [
    {
      code: 'coordinator-away',
      severity: 'warning',
      subject: 'coordinator',
      problem: 'The server that stores the values of data spaces is not connected.',
      remedy:
        "See the master's log for the reason. The options are under bridge: guests: data: coordinator.",
    },
  ];
}

const answerMs = 5_000;

/** Result of querying the running master. */
interface MasterExamination {
  /** The running master, or `undefined` if no master responds. */
  readonly running: RunningMaster | undefined;
  readonly findings: readonly DoctorFinding[];
}

/**
 * Queries the state of the running master. If no master is running, returns no findings. A master
 * that does not respond within five seconds is a finding.
 */
async function examineMaster(openApi: () => Promise<MasterApi>): Promise<MasterExamination> {
  try {
    const running = await withDeadline(ask(openApi));
    return { running, findings: [] };
  } catch (error) {
    return { running: undefined, findings: isNobodyThere(error) ? [] : [unreachable(error)] };
  }
}

async function ask(openApi: () => Promise<MasterApi>): Promise<RunningMaster> {
  const api = await openApi();
  return {
    status: await api.status(),
    keys: await api.keys.list(),
    minions: await api.minions(),
  };
}

async function withDeadline<T>(answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`the master did not respond within ${answerMs / 1000} s`)),
      answerMs,
    );
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Whether the error means that no master is running: the socket is missing or stale, or the
 * configuration defines no socket.
 */
function isNobodyThere(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  const codes = [codeOf(error) ?? '', codeOf(cause) ?? ''];
  return codes.some((code) => code === 'ENOENT' || code === 'ECONNREFUSED' || isOfConfig(code));
}

function isOfConfig(code: string): boolean {
  return code.startsWith('ERR_CONFIG_') || code.startsWith('ERR_OPTION_');
}

function unreachable(error: unknown): DoctorFinding {
  return {
    code: 'master-unreachable',
    severity: 'error',
    subject: 'local socket',
    problem: `A master seems to be running, but cannot be queried: ${error instanceof Error ? error.message : 'unknown'}.`,
    remedy: "Run this command as the master's user. If you already do, check the master's log.",
  };
}

/** Result of reading the store. */
interface StoreExamination {
  readonly content: StoreContent | undefined;
  readonly findings: readonly DoctorFinding[];
}

const codes: Readonly<Partial<Record<string, { code: DoctorCode; remedy: string }>>> = {
  ERR_STORE_LOCKED: {
    code: 'store-locked',
    remedy: 'A master that does not respond has the store open. Check its log, or end its process.',
  },
  ERR_STORE_CORRUPT: {
    code: 'store-corrupt',
    remedy: 'Restore the store from a backup, or move it away. Every minion then signs in again.',
  },
  ERR_STORE_VERSION: {
    code: 'store-version',
    remedy:
      'Run the version of saltbridge that wrote the store, or a later version that can convert it.',
  },
};

/** Reads the store of a master that is not running. */
async function examineStore(stateDir: string): Promise<StoreExamination> {
  const directory = `${stateDir}/store`;
  try {
    return { content: await readStore(directory, readContent), findings: [] };
  } catch (error) {
    const code = error instanceof StoreError ? error.code : '';
    const known = codes[code] ?? {
      code: 'store-unreadable',
      remedy: "Check its owner, and run this command as the master's user.",
    };
    const problem = error instanceof Error ? error.message : 'it cannot be read';
    return {
      content: undefined,
      findings: [
        {
          code: known.code,
          severity: 'error',
          subject: directory,
          problem: `${problem}.`,
          remedy: known.remedy,
        },
      ],
    };
  }
}

async function readContent(store: Pick<Store, 'list'>): Promise<StoreContent> {
  let latestJobAt: number | undefined;
  for await (const { key } of store.list(['jobs'], { reverse: true, limit: 1 })) {
    latestJobAt = jidTime(key[1] ?? '')?.getTime();
  }
  return { pins: await readPins(store), latestJobAt };
}

/** Returns the default {@link SystemInfo}, which examines this machine. */
function thisWorld(): SystemInfo {
  const uid = process.getuid?.();
  return {
    now: Date.now,
    procDirectory: '/proc',
    // Root may examine the files of any user, so accept any owner.
    uid: uid === 0 ? undefined : uid,
    diskOf,
    nodeVersion: process.versions.node,
    canSignSha1,
  };
}

/**
 * Returns the free space of the disk that contains the path. If the path does not exist, its
 * nearest existing parent is used.
 */
async function diskOf(file: string): Promise<DiskRoom> {
  try {
    const { bavail, blocks, bsize, ffree, files } = await statfs(file);
    return {
      freeBytes: bavail * bsize,
      totalBytes: blocks * bsize,
      freeInodes: ffree,
      totalInodes: files,
    };
  } catch (error) {
    const parent = path.dirname(file);
    if (!isMissing(error) || parent === file) throw error;
    return diskOf(parent);
  }
}

/**
 * Whether this system can create SHA-1 signatures. The crypto policies of some systems forbid them
 * for all kinds of keys.
 */
function canSignSha1(): boolean {
  // Use an EC key, because generating an RSA key takes about a second.
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  try {
    return sign('sha1', Buffer.from('x'), privateKey).length > 0;
  } catch {
    return false;
  }
}

const checks: Readonly<Record<string, Check>> = {
  configuration: checkConfig,
  reactions: checkReactions,
  versions: checkVersions,
  ports: checkPorts,
  "Salt's own clients": checkLocalClient,
  permissions: checkPermissions,
  'own keys': checkOwnKeys,
  "minions' keys": checkMinionKeys,
  protocol: checkProtocol,
  restart: checkRestart,
  outbox: checkOutbox,
  coordinator: checkCoordinator,
  cluster: checkCluster,
  'certificates of the cluster': checkClusterCertificates,
  clock: checkClock,
  'open files': checkFileLimit,
  disk: checkDisk,
};

/** Options of {@link runDoctor}. */
export interface DoctorOptions {
  /** Configuration directory, for example `/etc/salt`. */
  readonly directory: string;
  /** Opens the interface of the configured master. Rejects if that master is not running. */
  readonly openApi: () => Promise<MasterApi>;
  /**
   * Replacements for some values and functions of {@link SystemInfo}. The others examine this
   * machine.
   */
  readonly world?: Partial<SystemInfo>;
}

/**
 * Runs all checks. They change nothing. If no master is running, they listen on the ports for a
 * moment.
 */
export async function runDoctor({
  directory,
  openApi,
  world,
}: DoctorOptions): Promise<DoctorReport> {
  const config = await checkMasterConfig(directory);
  const master = await examineMaster(openApi);
  const store =
    master.running === undefined
      ? await examineStore(config.config.stateDir)
      : { content: undefined, findings: [] };
  const patient: DiagnosticsInput = {
    config,
    running: master.running,
    keys: await surveyKeys(config.config.pkiDir),
    store: store.content,
    world: { ...thisWorld(), ...world },
  };
  const findings = withoutRepeats([
    ...master.findings,
    ...store.findings,
    ...(await runChecks(patient)),
  ]);
  return {
    findings: [
      ...findings.filter(({ severity }) => severity === 'error'),
      ...findings.filter(({ severity }) => severity === 'warning'),
    ],
    isRunning: master.running !== undefined,
    versions: {
      saltbridge: version,
      node: process.versions.node,
      openssl: process.versions.openssl,
      store: engineVersion(),
    },
  };
}

/** Removes repeated findings. Directories with the same parent cause the same finding. */
function withoutRepeats(findings: readonly DoctorFinding[]): DoctorFinding[] {
  const nameOf = ({ code, subject, problem }: DoctorFinding): string =>
    `${code} ${subject} ${problem}`;
  return [...new Map(findings.map((it) => [nameOf(it), it])).values()];
}

async function runChecks(patient: DiagnosticsInput): Promise<DoctorFinding[]> {
  const found: DoctorFinding[] = [];
  for (const [name, check] of Object.entries(checks)) {
    found.push(...(await check(patient).catch((error: unknown) => [failure(name, error)])));
  }
  return found;
}

function failure(name: string, error: unknown): DoctorFinding {
  return {
    code: 'check-failed',
    severity: 'error',
    subject: name,
    problem: `This check could not be completed: ${error instanceof Error ? error.message : 'unknown'}.`,
    remedy: "Run this command as root or as the master's user.",
  };
}
