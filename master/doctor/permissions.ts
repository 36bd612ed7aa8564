import type { Stats } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { MasterConfig } from '../config/options.ts';
import { placeDirectories } from '../keys/pki-dir.ts';
import { isMissing } from '../system-error.ts';
import type { Patient } from './patient.ts';
import type { DoctorFinding } from './report.ts';

const sticky = 0o1000;
const groupWrites = 0o020;
const othersWrite = 0o002;
const groupReads = 0o040;
const othersReadOrWrite = 0o006;
const minuteMs = 60_000;

/** What writing a file beside it and renaming it leaves behind when the process is killed. */
const temporaryName = /^\.saltbridge-.*\.tmp$|\.[0-9a-f]{12}\.tmp$/;

/** Who could read or replace what is the master's alone, and what lies about. */
export async function checkPermissions(patient: Patient): Promise<DoctorFinding[]> {
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

function secretsOf({ pkiDir, stateDir, masterSignKeyName }: MasterConfig): string[] {
  return [
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
  const stats = await statIfThere(directory);
  if (stats === undefined) return [];
  const isPki = directory === pkiDir || directory.startsWith(`${pkiDir}/`);
  const forbidden = othersWrite | (isPki && permissivePkiAccess ? 0 : groupWrites);
  if ((stats.mode & forbidden) === 0) return [];
  const who = (stats.mode & othersWrite) !== 0 ? 'Everybody' : 'The group';
  return [writable(directory, `${who} may write to it, and so replace keys or state.`)];
}

/** Who can write to a directory above can put another one in its place. */
async function checkParents(directory: string): Promise<DoctorFinding[]> {
  const parent = path.dirname(directory);
  if (parent === directory) return [];
  const { mode } = (await statIfThere(parent)) ?? { mode: 0 };
  const isOpen = (mode & othersWrite) !== 0 && (mode & sticky) === 0;
  const own = isOpen ? [writable(parent, `Everybody may replace what lies below.`)] : [];
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
  const stats = await statIfThere(file);
  if (stats === undefined) return [];
  const isShared = config.permissivePkiAccess && file.startsWith(`${config.pkiDir}/`);
  const forbidden = othersReadOrWrite | groupWrites | (isShared ? 0 : groupReads);
  if ((stats.mode & forbidden) === 0) return [];
  return [
    {
      code: 'secret-readable',
      severity: 'error',
      subject: file,
      problem: `Others than its owner have access to it (mode ${(stats.mode & 0o777).toString(8)}).`,
      remedy: `chmod go= ${file}; if others had access to the machine, make new keys`,
    },
  ];
}

/** All belong to one user: the one that is asked for, or whoever has `pki_dir`. */
async function checkOwners(
  directories: readonly string[],
  { config, world }: Patient,
): Promise<DoctorFinding[]> {
  const owner = world.uid ?? (await statIfThere(config.config.pkiDir))?.uid;
  const findings: DoctorFinding[] = [];
  for (const directory of directories) {
    const stats = await statIfThere(directory);
    if (stats === undefined || owner === undefined || stats.uid === owner) continue;
    findings.push({
      code: 'directory-owner',
      severity: 'error',
      subject: directory,
      problem: `It belongs to user ${stats.uid}, the master's other files to ${owner}.`,
      remedy: `Run everything as one user; chown -R ${owner} ${directory}, if it is that one.`,
    });
  }
  return findings;
}

async function checkLeftovers(directory: string, { world }: Patient): Promise<DoctorFinding[]> {
  const names = await readdir(directory).catch(() => []);
  const findings: DoctorFinding[] = [];
  for (const name of names.filter((it) => temporaryName.test(it))) {
    const subject = path.join(directory, name);
    const stats = await statIfThere(subject);
    // A younger one may be about to be renamed.
    if (stats === undefined || world.now() - stats.mtimeMs < minuteMs) continue;
    findings.push({
      code: 'leftover-file',
      severity: 'warning',
      subject,
      problem: 'A process was ended while it wrote this file; nobody uses it.',
      remedy: 'Remove it.',
    });
  }
  return findings;
}

async function statIfThere(file: string): Promise<Stats | undefined> {
  try {
    return await stat(file);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
