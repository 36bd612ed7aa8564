import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { version } from '../version.ts';
import type { DiskRoom, Patient } from './patient.ts';
import type { DoctorFinding } from './report.ts';

const mebibyte = 1_048_576;
const toleranceMs = 300_000;
/** The store, keys, the log, worker threads and the local socket. */
const ownDescriptors = 256;
/** A minion keeps one connection for publications and one for requests. */
const connectionsPerMinion = 2;
const minNode = [20, 12] as const;

/** Versions of what the master runs on. */
export async function checkVersions({ world, running }: Patient): Promise<DoctorFinding[]> {
  const findings: DoctorFinding[] = [];
  const [major = 0, minor = 0] = world.nodeVersion.split('.').map(Number);
  if (major < minNode[0] || (major === minNode[0] && minor < minNode[1])) {
    findings.push({
      code: 'node-version',
      severity: 'error',
      subject: `Node ${world.nodeVersion}`,
      problem: `It is older than ${minNode.join('.')}.`,
      remedy: 'Install a version that is supported.',
    });
  }
  if (!world.canSignSha1()) {
    findings.push({
      code: 'sha1-refused',
      severity: 'error',
      subject: `OpenSSL ${process.versions.openssl}`,
      problem: 'The system forbids signatures over SHA-1, which minions expect.',
      remedy:
        'Permit them for this service: a crypto policy with SHA1, or an OpenSSL configuration.',
    });
  }
  if (running !== undefined && running.status.version !== version) {
    findings.push({
      code: 'version-differs',
      severity: 'warning',
      subject: `saltbridge ${running.status.version}`,
      problem: `The running master is of another version than this program (${version}).`,
      remedy: 'Restart the master.',
    });
  }
  return findings;
}

/** Files from the future, or jobs: the clock stands behind what it once showed. */
export async function checkClock({
  config,
  keys,
  store,
  world,
}: Patient): Promise<DoctorFinding[]> {
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
      problem: `It is of ${new Date(latest.at).toISOString()}, and the clock says ${new Date(now).toISOString()}.`,
      remedy: 'Set the clock (NTP): requests of minions more than five minutes off are refused.',
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

/** Open files, of which every connection is one. */
export async function checkFileLimit({ keys, running, world }: Patient): Promise<DoctorFinding[]> {
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
      problem: `${limit} files may be open; ${minions} minions need some ${needed}.`,
      remedy: `Start the master with a larger limit (LimitNOFILE=${Math.max(65_536, needed * 2)}, ulimit -n).`,
    },
  ];
}

/** The soft limit; `undefined` where the text does not say. */
function openFileLimit(limits: string): number | undefined {
  const [, soft] = /^Max open files\s+(\S+)/m.exec(limits) ?? [];
  if (soft === 'unlimited') return Number.POSITIVE_INFINITY;
  return soft === undefined || !/^\d+$/.test(soft) ? undefined : Number(soft);
}

/** Room for what must be kept. */
export async function checkDisk({ config, world }: Patient): Promise<DoctorFinding[]> {
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
      problem: `${Math.floor(room.freeBytes / mebibyte)} MiB are free: soon neither keys nor returns are kept.`,
      remedy: 'Free space, or move the directory.',
    });
  }
  if (room.totalInodes > 0 && room.freeInodes < room.totalInodes / 50) {
    findings.push({
      code: 'inodes-full',
      severity: 'warning',
      subject,
      problem: `${room.freeInodes} inodes are free: soon no file can be made.`,
      remedy: 'Remove many small files, for instance an old job cache of salt-master.',
    });
  }
  return findings;
}
