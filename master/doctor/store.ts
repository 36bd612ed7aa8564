import { jidTime } from '../../minion-protocol/index.ts';
import { readStore, type Store, StoreError } from '../../store/index.ts';
import { readPins } from '../requests/version-pins.ts';
import type { StoreContent } from './patient.ts';
import type { DoctorCode, DoctorFinding } from './report.ts';

/** What became of looking into the store. */
export interface StoreExamination {
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
export async function examineStore(stateDir: string): Promise<StoreExamination> {
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
