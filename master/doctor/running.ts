import type { MasterApi } from '../api.ts';
import { codeOf } from '../system-error.ts';
import type { RunningMaster } from './patient.ts';
import type { DoctorFinding } from './report.ts';

const answerMs = 5_000;

/** What became of asking the master. */
export interface MasterExamination {
  /** `undefined`: none answers. */
  readonly running: RunningMaster | undefined;
  readonly findings: readonly DoctorFinding[];
}

/** Asks the master of a configuration how it is; that none runs is no finding. */
export async function examineMaster(openApi: () => Promise<MasterApi>): Promise<MasterExamination> {
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
