import { open } from 'node:fs/promises';
import { isMissing } from '../system-error.ts';

/** A file that decides about keys: its text, or why it is not to be believed. */
export type TrustedFile =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: 'missing' | 'unreadable' | 'writable' };

/** Reads a file unless others (or its group, without `groupMayWrite`) could write to it. */
export async function readTrustedFile(file: string, groupMayWrite: boolean): Promise<TrustedFile> {
  try {
    const handle = await open(file);
    try {
      const { mode } = await handle.stat();
      const forbidden = groupMayWrite ? 0o002 : 0o022;
      if ((mode & forbidden) !== 0) return { ok: false, reason: 'writable' };
      return { ok: true, text: await handle.readFile('utf8') };
    } finally {
      await handle.close();
    }
  } catch (error) {
    return { ok: false, reason: isMissing(error) ? 'missing' : 'unreadable' };
  }
}
