/** A look at a master's configuration, files and machine, with or without the master running. */

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
  type MasterConfig,
  placeOf,
  policySyntax,
  rulesOf,
  serviceOf,
  withoutPlace,
} from '#config';
import { type MasterApi, readPins, surveyKeys, version } from '#master';
import { jidTime } from '#minion-protocol';
import { codeOf, isMissing, readTextIfPresent } from '#runtime';
import { engineVersion, readStore, type Store, StoreError } from '#store';
import { checkCluster, checkClusterCertificates } from './cluster.ts';
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

/** What the configuration says, and what it is risky to say. */
async function checkConfig({ config: survey }: DiagnosticsInput): Promise<DoctorFinding[]> {
  const { config, problems, warnings } = survey;
  const findings: DoctorFinding[] = problems.map((problem) => ({
    code: 'config-problem',
    severity: 'error',
    subject: placeOf(problem),
    problem: `The master does not start: ${withoutPlace(problem)}.`,
    remedy: 'Correct it; docs/errors.md says more of its code.',
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
      problem: `The path of a socket has at most ${maxSocketPathBytes} bytes.`,
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
      problem: 'Anybody may take the place of any minion.',
      remedy: 'Remove open_mode as soon as keys have been exchanged.',
    });
  }
  if (config.autoAccept) {
    findings.push({
      code: 'auto-accept',
      severity: 'warning',
      subject: 'auto_accept',
      problem: 'Every machine that reaches the port becomes a minion.',
      remedy: 'Accept keys by hand, or by autosign_file or autosign_grains_dir.',
    });
  }
  return findings;
}

function remedyOf(kind: ConfigWarning['kind']): string {
  if (kind === 'narrowed' || kind === 'rights') return 'Write each expression as it is meant.';
  if (kind === 'no-login') return 'Correct the back end, or remove it.';
  if (kind === 'bounded') return 'Set the two options so that one fits into the other.';
  return 'Remove options without effect; saltbridge migrate check says what to do instead.';
}

/** What `saltbridge localclient enable` opens: it is one key to everything. */
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
      problem: `Salt's own clients are served at 127.0.0.1:${port}; whoever reads the key in cache/ may do everything.`,
      remedy: 'Run saltbridge localclient disable where no such client is used.',
    },
  ];
}

/** Whether both ports can be bound, where no master of ours has them. */
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

/** Salt's own default address, on the family that `ipv6` asks for. */
function hostOf({ interface: host, ipv6 }: MasterConfig): string {
  return ipv6 === true && host === '0.0.0.0' ? '::' : host;
}

/** @returns the system's code of the failure */
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
        problem: 'Another program has the port; no master of this configuration answers.',
        remedy: `Stop it (salt-master?); ss -ltnp 'sport = :${port}' names it.`,
      }
    : {
        code: 'port-unavailable',
        severity: 'error',
        subject,
        problem: `The port cannot be bound (${failure}).`,
        remedy:
          'See that the machine has the address of interface, and that the port is permitted.',
      };
}

const latestProtocol = 3;

/** Accepted ids whose returns an accepted minion could forge: they have not proved protocol 3. */
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
        ? 'These ids have not proved protocol 3, and lower ones are refused.'
        : 'These ids have not proved protocol 3: other minions could return in their name.',
      remedy: 'Update the minions (3006.17, 3007.9 or later); delete the ids that are no more.',
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

/** Files of the reactor that no rule permits anything: every run of theirs is denied. */
async function checkReactions({
  config: survey,
  world,
}: DiagnosticsInput): Promise<DoctorFinding[]> {
  const { config } = survey;
  const references = new Set(config.reactor.flatMap(({ sls }) => sls));
  if (references.size === 0) return [];
  const nobody = (): boolean => false;
  const policy = createPolicy(rulesOf(config), {
    ...policySyntax,
    // Whom a rule means is another question than whether there is one.
    target: () => ({ isEntitled: nobody, claims: nobody, mayMean: nobody }),
    pillarOf: () => undefined,
    now: world.now,
  });
  return [...references]
    .filter((reference) => !actions.some((it) => hasRules(serviceOf(reference), it, policy)))
    .map((reference) => ({
      code: 'reaction-powerless',
      severity: 'warning',
      subject: reference,
      problem: 'No rule permits this file of the reactor anything, so every run of it is denied.',
      remedy:
        'Give service: reaction:<file> a rule; saltbridge migrate check derives those it can.',
    }));
}

/** Minions that a planned restart of the master would leave without a connection. */
async function checkRestart({ running }: DiagnosticsInput): Promise<DoctorFinding[]> {
  const ids = running?.minions.filter((it) => it.needsOwnRestart).map(({ id }) => id) ?? [];
  if (ids.length === 0) return [];
  return [
    {
      code: 'minion-needs-restart',
      severity: 'warning',
      subject: formatList(ids),
      problem:
        'After a restart of the master these minions do not connect again: Salt 3007 and later over TCP and WebSocket.',
      remedy: 'Restart each minion after the master, or let them use ZeroMQ.',
    },
  ];
}

/** A service that is away for so long is more than restarted. */
const slowOutboxSeconds = 900;

/** Signals that a service does not take. */
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
      problem: `${dead} signals were given up, and are not delivered.`,
      remedy:
        'saltbridge bridge outbox list --dead says why; saltbridge bridge outbox retry, or drop.',
    });
  }
  if (oldest > slowOutboxSeconds) {
    findings.push({
      code: 'outbox-slow',
      severity: 'warning',
      subject: 'outbox',
      problem: `The first signal waits for ${Math.round(oldest)} seconds.`,
      remedy: 'saltbridge bridge outbox list says what the service answers; look at that service.',
    });
  }
  return findings;
}

/** The etcd or ZooKeeper that keeps the values of data spaces. */
async function checkCoordinator({ running }: DiagnosticsInput): Promise<DoctorFinding[]> {
  if (running?.status.extensions?.bridge?.data_coordinator_connected !== 0) return [];
  return [
    {
      code: 'coordinator-away',
      severity: 'warning',
      subject: 'coordinator',
      problem: 'The server that keeps the values of data spaces is not connected.',
      remedy: "The master's log says why; the options are under bridge: guests: data: coordinator.",
    },
  ];
}

const answerMs = 5_000;

/** What became of asking the master. */
interface MasterExamination {
  /** `undefined`: none answers. */
  readonly running: RunningMaster | undefined;
  readonly findings: readonly DoctorFinding[];
}

/** Asks the master of a configuration how it is; that none runs is no finding. */
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
    timer = setTimeout(() => reject(new Error('no answer in five seconds')), answerMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** No socket, a socket that a dead master left, or a configuration that names none. */
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
    problem: `A master seems to run, but cannot be asked: ${error instanceof Error ? error.message : 'unknown'}.`,
    remedy: 'Run this as the user of the master; if it is, look at its log.',
  };
}

/** What became of looking into the store. */
interface StoreExamination {
  readonly content: StoreContent | undefined;
  readonly findings: readonly DoctorFinding[];
}

const codes: Readonly<Partial<Record<string, { code: DoctorCode; remedy: string }>>> = {
  ERR_STORE_LOCKED: {
    code: 'store-locked',
    remedy: 'A master that does not answer has it: look at its log, or end that process.',
  },
  ERR_STORE_CORRUPT: {
    code: 'store-corrupt',
    remedy: 'Restore it from a backup, or move it away: every minion then signs in once more.',
  },
  ERR_STORE_VERSION: {
    code: 'store-version',
    remedy: 'Run the version that wrote it, or a later one that can convert it.',
  },
};

/** Reads the store of a master that does not run. */
async function examineStore(stateDir: string): Promise<StoreExamination> {
  const directory = `${stateDir}/store`;
  try {
    return { content: await readStore(directory, readContent), findings: [] };
  } catch (error) {
    const code = error instanceof StoreError ? error.code : '';
    const known = codes[code] ?? {
      code: 'store-unreadable',
      remedy: 'See who owns it; run this as the user of the master.',
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

/** This machine, as this process sees it. */
function thisWorld(): SystemInfo {
  const uid = process.getuid?.();
  return {
    now: Date.now,
    procDirectory: '/proc',
    // Root may look at a master of any user's.
    uid: uid === 0 ? undefined : uid,
    diskOf,
    nodeVersion: process.versions.node,
    canSignSha1,
  };
}

/** Of the nearest directory above that exists. */
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

/** Some systems' crypto policies forbid the digest, whatever the kind of key. */
function canSignSha1(): boolean {
  // An RSA key would take a second to make.
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

/** Whom to examine. */
export interface DoctorOptions {
  /** The configuration directory, for instance `/etc/salt`. */
  readonly directory: string;
  /** The interface of the master of this configuration; it need not run. */
  readonly openApi: () => Promise<MasterApi>;
  /** Default: this machine. */
  readonly world?: Partial<SystemInfo>;
}

/** Examines. Changes nothing; binds the ports for a moment where no master runs. */
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

/** Directories share what is above them. */
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
    problem: `This could not be looked at: ${error instanceof Error ? error.message : 'unknown'}.`,
    remedy: 'Run this as root or as the user of the master.',
  };
}
