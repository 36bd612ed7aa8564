import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Cleanup } from './cleanup.ts';

/** Creates a directory for one test. It is removed after the test. */
export function temporaryDirectory(t: Cleanup): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-test-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
