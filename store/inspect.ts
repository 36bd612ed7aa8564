import { fork } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { StoreInspection } from './check-tables.ts';
import { StoreError } from './errors.ts';
import { checkSignature } from './lmdb-tables.ts';

const program = fileURLToPath(new URL('./inspect-program.ts', import.meta.url));

/** Message that the inspection program sends to its parent process. */
export type InspectionMessage = { readonly found: StoreInspection } | { readonly failed: string };

/**
 * Reads a store completely without changing it, even while another process has it open. The
 * inspection runs in a separate process, because a damaged database file can crash LMDB.
 * @throws StoreError ERR_STORE_CORRUPT; ERR_STORE_UNAVAILABLE if there is no store
 */
export async function inspectStore(directory: string): Promise<StoreInspection> {
  const data = path.join(directory, 'data.mdb');
  const found = await stat(data).catch((cause: unknown) => {
    throw new StoreError('ERR_STORE_UNAVAILABLE', `there is no store in ${directory}`, { cause });
  });
  if (found.size === 0) return { layout: 0, revision: 0, entries: {}, records: 0, problems: [] };
  await checkSignature(data);
  const child = fork(program, [directory], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  let message: InspectionMessage | undefined;
  child.on('message', (told: InspectionMessage) => {
    message = told;
  });
  await once(child, 'close');
  if (message === undefined) {
    throw new StoreError(
      'ERR_STORE_CORRUPT',
      `${data} is damaged: the process that read it crashed`,
    );
  }
  if ('failed' in message) throw new StoreError('ERR_STORE_CORRUPT', `${data}: ${message.failed}`);
  return message.found;
}
