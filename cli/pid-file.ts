import { chownSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Account } from './accounts.ts';
import { makeFolder } from './folders.ts';

/**
 * Writes the process's id to Salt's `pidfile`, for `owner` to keep.
 * @returns how to take it away again; another process's is left alone
 * @throws the system's error
 */
export function writePidFile(file: string, owner: Account | undefined): () => void {
  const text = `${process.pid}`;
  makeFolder(path.dirname(file), 0o755, owner);
  writeFileSync(file, text, { mode: 0o644 });
  if (owner !== undefined) chownSync(file, owner.uid, owner.gid);
  return () => {
    try {
      if (readFileSync(file, 'utf8') === text) rmSync(file);
    } catch {
      // It is gone, or lies in a folder of root's; the next start writes it anew.
    }
  };
}
