/** A look at a master's configuration, files and machine, with or without the master running. */
import { engineVersion } from '../../store/index.ts';
import type { MasterApi } from '../api.ts';
import { surveyMasterConfig } from '../config/survey.ts';
import { surveyKeys } from '../keys/key-survey.ts';
import { version } from '../version.ts';
import { checkConfig } from './config.ts';
import { checkMinionKeys, checkOwnKeys } from './keys.ts';
import { checkClock, checkDisk, checkFileLimit, checkVersions } from './machine.ts';
import type { Check, DoctorWorld, Patient } from './patient.ts';
import { checkPermissions } from './permissions.ts';
import { checkPorts } from './ports.ts';
import { checkProtocol } from './protocol.ts';
import type { DoctorFinding, DoctorReport } from './report.ts';
import { checkRestart } from './restart.ts';
import { examineMaster } from './running.ts';
import { examineStore } from './store.ts';
import { thisWorld } from './world.ts';

const checks: Readonly<Record<string, Check>> = {
  configuration: checkConfig,
  versions: checkVersions,
  ports: checkPorts,
  permissions: checkPermissions,
  'own keys': checkOwnKeys,
  "minions' keys": checkMinionKeys,
  protocol: checkProtocol,
  restart: checkRestart,
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
  readonly world?: Partial<DoctorWorld>;
}

/** Examines. Changes nothing; binds the ports for a moment where no master runs. */
export async function examine({ directory, openApi, world }: DoctorOptions): Promise<DoctorReport> {
  const config = await surveyMasterConfig(directory);
  const master = await examineMaster(openApi);
  const store =
    master.running === undefined
      ? await examineStore(config.config.stateDir)
      : { content: undefined, findings: [] };
  const patient: Patient = {
    config,
    running: master.running,
    keys: await surveyKeys(config.config.pkiDir),
    store: store.content,
    world: { ...thisWorld(), ...world },
  };
  const findings = once([...master.findings, ...store.findings, ...(await runChecks(patient))]);
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
function once(findings: readonly DoctorFinding[]): DoctorFinding[] {
  return [...new Map(findings.map((it) => [`${it.code} ${it.subject}`, it])).values()];
}

async function runChecks(patient: Patient): Promise<DoctorFinding[]> {
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
