import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import type { MasterConfig } from '#config';
import { placeDirectories, version } from '#master';
import { ifPresent } from '#runtime';
import type { DiagnosticsInput, DiskRoom, DoctorFinding } from './report.ts';

const mebibyte = 1_048_576;
const toleranceMs = 300_000;
/**
 * Number of file descriptors that the master itself needs, for its store, keys, log, worker threads
 * and local socket.
 */
const ownDescriptors = 256;
/** Number of connections per minion: one for publications and one for requests. */
const connectionsPerMinion = 2;
const minNode = [22, 18] as const;

/** Checks the version of Node.js, the crypto policy, and the version of the running master. */
export async function checkVersions({
  world,
  running,
}: DiagnosticsInput): Promise<DoctorFinding[]> {
  const findings: DoctorFinding[] = [];
  const [major = 0, minor = 0] = world.nodeVersion.split('.').map(Number);
  if (major < minNode[0] || (major === minNode[0] && minor < minNode[1])) {
    findings.push({
      code: 'node-version',
      severity: 'error',
      subject: `Node ${world.nodeVersion}`,
      problem: `The version of Node.js is older than ${minNode.join('.')}.`,
      remedy: 'Install a supported version of Node.js.',
    });
  }
  if (!world.canSignSha1()) {
    findings.push({
      code: 'sha1-refused',
      severity: 'error',
      subject: `OpenSSL ${process.versions.openssl}`,
      problem: 'The system forbids SHA-1 signatures, which minions require.',
      remedy:
        'Permit SHA-1 signatures for this service: use the crypto policy SHA1, or an OpenSSL configuration.',
    });
  }
  if (running !== undefined && running.status.version !== version) {
    findings.push({
      code: 'version-differs',
      severity: 'warning',
      subject: `saltbridge ${running.status.version}`,
      problem: `The running master has a different version than this program (${version}).`,
      remedy: 'Restart the master.',
    });
  }
  return findings;
}

/** Reports that the clock was set back, if a file or a job has a time in the future. */
export async function checkClock({
  config,
  keys,
  store,
  world,
}: DiagnosticsInput): Promise<DoctorFinding[]> {
  const { pkiDir, stateDir } = config.config;
  const now = world.now();
  const times = [
    ...keys.keys.map(({ file, since }) => ({ subject: file, at: since })),
    ...(await timesOf([path.join(pkiDir, 'master.pem'), path.join(stateDir, 'store/data.mdb')])),
    ...(store?.latestJobAt === undefined ? [] : [{ subject: 'latest job', at: store.latestJobAt }]),
  ].sort((left, right) => right.at - left.at);
  const [latest] = times;
  if (latest === undefined || latest.at - now <= toleranceMs) return [];
  return [
    {
      code: 'clock-behind',
      severity: 'error',
      subject: latest.subject,
      problem: `This file or job has the time ${new Date(latest.at).toISOString()}, but the clock shows ${new Date(now).toISOString()}.`,
      remedy:
        'Synchronise the clock (NTP). Requests of minions are rejected if their time differs by more than five minutes.',
    },
  ];
}

async function timesOf(
  files: readonly string[],
): Promise<{ readonly subject: string; readonly at: number }[]> {
  const times = await Promise.all(
    files.map(async (subject) => {
      const stats = await stat(subject).catch(() => undefined);
      return stats === undefined ? [] : [{ subject, at: stats.mtimeMs }];
    }),
  );
  return times.flat();
}

/**
 * Checks whether the limit of open files is high enough for all accepted minions. Each connection
 * of a minion uses one file descriptor.
 */
export async function checkFileLimit({
  keys,
  running,
  world,
}: DiagnosticsInput): Promise<DoctorFinding[]> {
  const subject = path.join(world.procDirectory, String(running?.status.pid ?? 'self'), 'limits');
  const limit = openFileLimit(await readFile(subject, 'utf8').catch(() => ''));
  const minions = keys.keys.filter(({ place }) => place === 'accepted').length;
  const needed = minions * connectionsPerMinion + ownDescriptors;
  if (limit === undefined || limit >= needed) return [];
  return [
    {
      code: 'file-limit',
      severity: 'error',
      subject,
      problem: `The limit of open files is ${limit}, but ${minions} minions need about ${needed}.`,
      remedy: `Start the master with a larger limit (LimitNOFILE=${Math.max(65_536, needed * 2)}, ulimit -n).`,
    },
  ];
}

/**
 * Returns the soft limit from the text of `/proc/<pid>/limits`, or `undefined` if the text does not
 * contain it.
 */
function openFileLimit(limits: string): number | undefined {
  const [, soft] = /^Max open files\s+(\S+)/m.exec(limits) ?? [];
  if (soft === 'unlimited') return Number.POSITIVE_INFINITY;
  return soft === undefined || !/^\d+$/.test(soft) ? undefined : Number(soft);
}

/** Checks the free disk space for keys and for the returns of jobs. */
export async function checkDisk({ config, world }: DiagnosticsInput): Promise<DoctorFinding[]> {
  const { pkiDir, stateDir } = config.config;
  const findings: DoctorFinding[] = [];
  for (const directory of [pkiDir, stateDir]) {
    findings.push(...judgeRoom(directory, await world.diskOf(directory)));
  }
  return findings;
}

function judgeRoom(subject: string, room: DiskRoom): DoctorFinding[] {
  const findings: DoctorFinding[] = [];
  const isLow = room.freeBytes < 1024 * mebibyte && room.freeBytes < room.totalBytes / 20;
  if (room.freeBytes < 64 * mebibyte || isLow) {
    findings.push({
      code: 'disk-full',
      severity: room.freeBytes < 64 * mebibyte ? 'error' : 'warning',
      subject,
      problem: `The file system has only ${Math.floor(room.freeBytes / mebibyte)} MiB free. When it is full, keys and returns cannot be stored.`,
      remedy: 'Free space, or move the directory.',
    });
  }
  if (room.totalInodes > 0 && room.freeInodes < room.totalInodes / 50) {
    findings.push({
      code: 'inodes-full',
      severity: 'warning',
      subject,
      problem: `The file system has only ${room.freeInodes} free inodes. Without free inodes, no file can be created.`,
      remedy: 'Remove small files, for example an old job cache of salt-master.',
    });
  }
  return findings;
}

const sticky = 0o1000;
const groupWrites = 0o020;
const othersWrite = 0o002;
const groupReads = 0o040;
const othersReadOrWrite = 0o006;
const minuteMs = 60_000;

/**
 * Matches names of temporary files. Such a file remains if the process was killed before it renamed
 * the file.
 */
const temporaryName = /^\.saltbridge-.*\.tmp$|\.[0-9a-f]{12}\.tmp$/;

/**
 * Checks which accounts can read or replace the private files of the master, and reports leftover
 * temporary files.
 */
export async function checkPermissions(patient: DiagnosticsInput): Promise<DoctorFinding[]> {
  const { config } = patient.config;
  const directories = [
    config.pkiDir,
    ...Object.values(placeDirectories).map((name) => path.join(config.pkiDir, name)),
    config.stateDir,
    path.join(config.stateDir, 'store'),
    config.sockDir,
  ];
  const found = await Promise.all([
    ...directories.map((directory) => checkDirectory(directory, config)),
    ...[config.pkiDir, config.stateDir].map((directory) => checkParents(directory)),
    ...secretsOf(config).map((file) => checkSecret(file, config)),
    checkOwners(directories, patient),
    ...[config.pkiDir, config.stateDir].map((directory) => checkLeftovers(directory, patient)),
  ]);
  return found.flat();
}

function secretsOf({ pkiDir, stateDir, masterSignKeyName, cluster }: MasterConfig): string[] {
  const { secretFile, passwordFile, credentialsFile, nkeyFile, tlsKey } = cluster ?? {};
  const ofCluster = [secretFile, passwordFile, credentialsFile, nkeyFile, tlsKey];
  return [
    ...ofCluster.filter((file) => file !== undefined),
    path.join(stateDir, 'cluster.secret'),
    path.join(pkiDir, 'master.pem'),
    path.join(pkiDir, `${masterSignKeyName}.pem`),
    path.join(stateDir, 'seal.key'),
    path.join(stateDir, 'store', 'data.mdb'),
  ];
}

async function checkDirectory(
  directory: string,
  { permissivePkiAccess, pkiDir }: MasterConfig,
): Promise<DoctorFinding[]> {
  const stats = await ifPresent(stat(directory));
  if (stats === undefined) return [];
  const isPki = directory === pkiDir || directory.startsWith(`${pkiDir}/`);
  const forbidden = othersWrite | (isPki && permissivePkiAccess ? 0 : groupWrites);
  if ((stats.mode & forbidden) === 0) return [];
  const who = (stats.mode & othersWrite) !== 0 ? 'Everybody' : 'The group';
  return [
    writable(
      directory,
      `${who} can write to this directory, and can therefore replace keys or state.`,
    ),
  ];
}

/**
 * Checks who can write to the parent directories of a directory. An account that can write to a
 * parent directory can replace the directory itself.
 */
async function checkParents(directory: string): Promise<DoctorFinding[]> {
  const parent = path.dirname(directory);
  if (parent === directory) return [];
  const { mode } = (await ifPresent(stat(parent))) ?? { mode: 0 };
  const isOpen = (mode & othersWrite) !== 0 && (mode & sticky) === 0;
  const own = isOpen
    ? [writable(parent, 'Every account can replace files below this directory.')]
    : [];
  return [...own, ...(await checkParents(parent))];
}

function writable(subject: string, problem: string): DoctorFinding {
  return {
    code: 'directory-writable',
    severity: 'error',
    subject,
    problem,
    remedy: `chmod go-w ${subject}`,
  };
}

async function checkSecret(file: string, config: MasterConfig): Promise<DoctorFinding[]> {
  const stats = await ifPresent(stat(file));
  if (stats === undefined) return [];
  const isShared = config.permissivePkiAccess && file.startsWith(`${config.pkiDir}/`);
  const forbidden = othersReadOrWrite | groupWrites | (isShared ? 0 : groupReads);
  if ((stats.mode & forbidden) === 0) return [];
  return [
    {
      code: 'secret-readable',
      severity: 'error',
      subject: file,
      problem: `Accounts other than the owner have access to this file (mode ${(stats.mode & 0o777).toString(8)}).`,
      remedy: `chmod go= ${file}; if other people had access to the machine, create new keys`,
    },
  ];
}

/**
 * Checks that all directories belong to the same user: the user id in {@link SystemInfo} or, if
 * that is `undefined`, the owner of `pki_dir`.
 */
async function checkOwners(
  directories: readonly string[],
  { config, world }: DiagnosticsInput,
): Promise<DoctorFinding[]> {
  const owner = world.uid ?? (await ifPresent(stat(config.config.pkiDir)))?.uid;
  const findings: DoctorFinding[] = [];
  for (const directory of directories) {
    const stats = await ifPresent(stat(directory));
    if (stats === undefined || owner === undefined || stats.uid === owner) continue;
    findings.push({
      code: 'directory-owner',
      severity: 'error',
      subject: directory,
      problem: `The file belongs to user ${stats.uid}, but the other files of the master belong to user ${owner}.`,
      remedy: `Run everything as one user. If that user is ${owner}: chown -R ${owner} ${directory}.`,
    });
  }
  return findings;
}

async function checkLeftovers(
  directory: string,
  { world }: DiagnosticsInput,
): Promise<DoctorFinding[]> {
  const names = await readdir(directory).catch(() => []);
  const findings: DoctorFinding[] = [];
  for (const name of names.filter((it) => temporaryName.test(it))) {
    const subject = path.join(directory, name);
    const stats = await ifPresent(stat(subject));
    // Do not report a recent temporary file, because it may still be in use.
    if (stats === undefined || world.now() - stats.mtimeMs < minuteMs) continue;
    findings.push({
      code: 'leftover-file',
      severity: 'warning',
      subject,
      problem: 'This temporary file remains from a process that ended while it wrote the file.',
      remedy: 'Remove the file.',
    });
  }
  return findings;
}
